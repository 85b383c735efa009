// masked-lm: models that find the tokens behind masks.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/data/data_file.h"
#include "engine/data/labelled_samples.h"
#include "engine/data/line_reader.h"
#include "engine/data/masked_texts.h"
#include "engine/data/sample_rows.h"
#include "engine/data/text_rows.h"
#include "engine/data/token_source.h"
#include "engine/datasets/masked_dataset.h"
#include "engine/run/run_state.h"
#include "engine/tasks/all_tasks.h"
#include "engine/tasks/classify_task.h"
#include "engine/tasks/encoder_answers.h"
#include "engine/tasks/sampled_data.h"
#include "engine/tasks/text_model.h"
#include "engine/tasks/zero_dataset.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// The texts of some files: windows of all tokens, or lines.
struct MaskedPart {
  std::unique_ptr<TokenSource> tokens;
  std::unique_ptr<MaskedTexts> texts;
  SampleLayout layout = SampleLayout::kWindows;
  std::unique_ptr<Dataset> dataset;

  DatasetSize Size() const {
    return {.unit = layout == SampleLayout::kPadded ? "lines" : "windows",
            .samples = dataset->size(),
            .tokens = texts->tokens()};
  }
};

class MaskedLmData : public SampledData<MaskedPart> {
 public:
  explicit MaskedLmData(const TaskInputs& inputs) : SampledData(inputs) {}

  absl::Status Open() {
    return OpenParts(
        [this](const auto& files, MaskedPart& part) { return Lay(files, &part != &train_, part); },
        [this](MaskedPart& part, const MaskedPart* beside) {
          OpenDataset(beside ? beside->texts->longest() : 0, part);
        });
  }

  SampleLayout layout() const override { return train_.layout; }
  std::vector<std::pair<std::string, std::string>> Identity() const override {
    std::vector<std::pair<std::string, std::string>> identity = {
        {"seq-len", absl::StrCat(config_.seq_len)},
        {"masked", absl::StrCat(config_.mask_probability.value_or(kMaskProbability))}};
    // Windows are left out, as in commits of versions that had no other layout.
    if (train_.layout != SampleLayout::kWindows) {
      identity.emplace_back(
          kSamplesName, absl::StrCat("padded", config_.pad_to_max_length ? " to the maximum" : ""));
    }
    return identity;
  }

 private:
  // All but the dataset. Held-out files are laid out as the data is, unless they have no samples.
  absl::Status Lay(const std::vector<std::string>& files, bool evaluated, MaskedPart& part) const {
    TokenSourceOptions options;
    options.files = files;
    options.tokenizer = inputs_.tokenizer;
    options.scratch_directory = ScratchDirectory(config_.train.output);
    options.vocabulary = model_.vocabulary;
    // MaskedTexts puts what the tokenizer has around a text around each window or line.
    options.begins_lines = false;
    options.ends_lines = config_.samples == SampleLayout::kWindows;
    options.chat_clock = config_.chat_clock;
    RETURN_IF_ERROR(MaskTokenOf(inputs_.tokenizer).status());
    ASSIGN_OR_RETURN(part.tokens, TokenSource::Open(options));
    if (!evaluated) {
      part.layout = config_.samples;
    } else if (part.tokens->has_samples()) {
      part.layout = train_.layout;
    }
    RETURN_IF_ERROR(CheckSampleLayout(part.layout, *part.tokens));
    MaskedTextsOptions texts;
    texts.tokenizer = inputs_.tokenizer;
    texts.seq_len = config_.seq_len;
    texts.config = &model_;
    texts.lines = part.layout == SampleLayout::kPadded;
    texts.scratch_directory = options.scratch_directory;
    ASSIGN_OR_RETURN(part.texts, MaskedTexts::Lay(part.tokens.get(), texts));
    LogInfo(absl::StrCat(part.tokens->names(), ": ", part.texts->size(),
                         texts.lines ? " lines; the longest has " : " windows of ",
                         part.texts->longest(), " tokens, of which some are masked"));
    return absl::OkStatus();
  }

  void OpenDataset(int64_t evaluated, MaskedPart& part) const {
    MaskedDatasetOptions options;
    options.seq_len = config_.seq_len;
    options.pad_to_max_length = config_.pad_to_max_length;
    options.evaluated_positions = evaluated;
    options.rule.probability = config_.mask_probability.value_or(kMaskProbability);
    options.rule.seed = config_.train.seed;
    options.rule.mask_token = *inputs_.tokenizer->mask_token();
    options.rule.tokens = inputs_.tokenizer->vocabulary_size();
    part.dataset = std::make_unique<MaskedDataset>(part.texts.get(), &model_, options);
  }
};

using nlohmann::ordered_json;

constexpr int64_t kShownTokens = 5;

struct MaskedFile {
  std::vector<LabelledText> texts;
  std::vector<std::vector<int64_t>> masks;  // [text] where they are
  EncodedFile encoded;
};

// Of a .txt each line that is not empty.
absl::Status ReadTexts(const PredictRequest& request,
                       const std::function<absl::Status(const LabelledText&)>& take) {
  if (!absl::EndsWith(request.data, ".txt")) {
    return ReadLabelledTexts(request.data, request.text_keys, /*needs_label=*/false, take);
  }
  return ReadLines(request.data, [&](absl::string_view line, int64_t number) {
    LabelledText text;
    text.first = std::string(absl::StripAsciiWhitespace(line));
    text.line = number;
    if (text.first.empty()) return absl::OkStatus();
    return Annotate(take(text), absl::StrCat(request.data, ":", number));
  });
}

absl::Status ReadMaskedFile(const PredictRequest& request, const TextModel& model,
                            MaskedFile& file) {
  const TransformerConfig& config = model.config.transformer;
  ASSIGN_OR_RETURN(const int64_t mask, MaskTokenOf(model.tokenizer.get()));
  ASSIGN_OR_RETURN(const std::string written, model.tokenizer->Decode({mask}));
  ASSIGN_OR_RETURN(const int64_t longest, LongestText(request, config));
  TextPairEncoder encoder(model.tokenizer.get(), &config, longest);
  RETURN_IF_ERROR(ReadTexts(request, [&](const LabelledText& text) -> absl::Status {
    ASSIGN_OR_RETURN(EncodedText encoded, encoder.Encode(text));
    std::vector<int64_t> masks;
    for (size_t i = 0; i < encoded.tokens.size(); ++i) {
      if (encoded.tokens[i] == mask) masks.push_back(static_cast<int64_t>(i));
    }
    if (masks.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the text has no ", written, " among its ", encoded.tokens.size(),
                       " tokens: write it where a token is to be found"));
    }
    file.texts.push_back(text);
    file.masks.push_back(std::move(masks));
    file.encoded.Add(std::move(encoded));
    return absl::OkStatus();
  }));
  if (file.texts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(request.data, ": there are no texts in it"));
  }
  file.encoded.WarnOfCut(request, encoder.cut());
  return absl::OkStatus();
}

// What the tokens of one of its texts are, 0 or 1.
absl::StatusOr<std::string> TextOfSource(const Tokenizer& tokenizer, const EncodedText& text,
                                         int8_t source) {
  std::vector<int64_t> own;
  for (size_t i = 0; i < text.tokens.size(); ++i) {
    if (text.sources[i] == source) own.push_back(text.tokens[i]);
  }
  return tokenizer.Decode(own);
}

class MaskFiller {
 public:
  MaskFiller(const TextModel& model, const MaskedFile& file)
      : tokenizer_(*model.tokenizer),
        file_(file),
        most_rows_(LossChunkRows(model.config.transformer.vocabulary)),
        tokens_(tokenizer_.vocabulary_size()) {}

  absl::StatusOr<std::vector<ordered_json>> Answer(ForwardPass& pass,
                                                   const std::vector<int64_t>& numbers,
                                                   const std::vector<torch::Tensor>& outputs) {
    std::vector<torch::Tensor> found;  // [mask], of all texts
    for (size_t i = 0; i < numbers.size(); ++i) {
      for (const int64_t at : file_.masks[numbers[i]]) found.push_back(outputs[i][at]);
    }
    ASSIGN_OR_RETURN(const Likeliest likeliest, Find(pass, torch::stack(found)));
    std::vector<ordered_json> rows;
    int64_t mask = 0;
    for (const int64_t number : numbers) {
      ASSIGN_OR_RETURN(ordered_json row, RowOf(number, likeliest, mask));
      rows.push_back(std::move(row));
      mask += static_cast<int64_t>(file_.masks[number].size());
    }
    return rows;
  }

 private:
  struct Likeliest {
    torch::Tensor chances, tokens;  // [masks, kShownTokens], the likeliest first
  };

  // Some rows at a time, as the loss takes them.
  absl::StatusOr<Likeliest> Find(ForwardPass& pass, const torch::Tensor& rows) const {
    std::vector<torch::Tensor> chances, tokens;
    for (const torch::Tensor& some : rows.split(most_rows_)) {
      ASSIGN_OR_RETURN(const torch::Tensor logits, pass.Logits(some));
      // Of tokens that the tokenizer does not know none is likely.
      const auto [values, ids] = logits.softmax(1)
                                     .narrow(1, 0, std::min(tokens_, logits.size(1)))
                                     .topk(std::min(kShownTokens, tokens_), 1);
      chances.push_back(values);
      tokens.push_back(ids);
    }
    return Likeliest{torch::cat(chances), torch::cat(tokens)};
  }

  // `mask`: the number of the text's first one.
  absl::StatusOr<ordered_json> RowOf(int64_t number, const Likeliest& likeliest, int64_t mask) {
    const LabelledText& text = file_.texts[number];
    EncodedText filled = file_.encoded.texts()[number];
    ordered_json masks = ordered_json::array();
    for (const int64_t at : file_.masks[number]) {
      ordered_json& tokens = masks.emplace_back(ordered_json::array());
      for (int64_t i = 0; i < likeliest.tokens.size(1); ++i) {
        const auto token = likeliest.tokens[mask][i].item<int64_t>();
        ASSIGN_OR_RETURN(const std::string written, tokenizer_.Decode({token}));
        tokens.push_back(
            {{"token", written}, {"probability", likeliest.chances[mask][i].item<float>()}});
        if (i == 0) filled.tokens[at] = token;
      }
      ++mask;
    }
    ordered_json row = {{"text", text.first}};
    if (text.second) row["text_pair"] = *text.second;
    row["masks"] = std::move(masks);
    ASSIGN_OR_RETURN(row["filled"], TextOfSource(tokenizer_, filled, 0));
    if (text.second) {
      ASSIGN_OR_RETURN(row["filled_pair"], TextOfSource(tokenizer_, filled, 1));
    }
    return row;
  }

  const Tokenizer& tokenizer_;
  const MaskedFile& file_;
  const int64_t most_rows_, tokens_;
};

class MaskedLmTask : public Task {
 public:
  ModelTask kind() const override { return ModelTask::kMaskedLm; }
  const char* model_does() const override { return "is a masked language model"; }
  bool Fits(const ModelConfig& model) const override { return model.transformer.masked; }

  absl::Status CheckFile(absl::string_view flag, const std::string& path,
                         const std::string& model) const override {
    if (!absl::EndsWith(path, ".csv") && !absl::EndsWith(path, ".tsv")) {
      return CheckDataFile(flag, path, DataUse::kTokens);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is a table of texts and labels, and ", model,
        " is a masked language model: --task classify makes one of it that classifies"));
  }
  absl::Status Resolve(RunConfig& config, ModelConfig& model) const override {
    RETURN_IF_ERROR(ResolveLength("--seq-len", model.transformer.longest_sequence(), kUsualLength,
                                  &config.seq_len));
    model.transformer.label_smoothing = config.train.label_smoothing;
    if (config.samples == SampleLayout::kByData) config.samples = SampleLayout::kWindows;
    return RefusePacking(config, "texts that are masked");
  }
  bool lays_samples() const override { return true; }

  absl::StatusOr<std::unique_ptr<TaskData>> OpenData(const TaskInputs& inputs) const override {
    auto data = std::make_unique<MaskedLmData>(inputs);
    RETURN_IF_ERROR(data->Open());
    return data;
  }
  absl::StatusOr<std::unique_ptr<Dataset>> LargestData(
      const RunConfig& config, const ModelConfig& model,
      const SampleLengths& lengths) const override {
    const double probability = config.mask_probability.value_or(kMaskProbability);
    return NewZeroDataset(
        config, [lengths, probability, transformer = model.transformer](int64_t count) {
          return LargestMaskedBatch(transformer, count, lengths.source, probability);
        });
  }

  absl::Status Prepare(const TextRequest& request, TextModel& model) const override {
    RETURN_IF_ERROR(RefuseGenerationFlags(request, model));
    return OpenTokenizer(request, model);
  }
  absl::StatusOr<bool> Predict(const PredictRequest& request, TextModel& model) const override {
    RETURN_IF_ERROR(
        CheckEncoderRequest(request, IsRowFile(request.data) ? DataUse::kRows : DataUse::kPrompts));
    RETURN_IF_ERROR(RefuseRequest(!request.text_keys.label.empty(), "--label-key", "classify texts",
                                  request, model));
    MaskedFile file;
    RETURN_IF_ERROR(ReadMaskedFile(request, model, file));
    MaskFiller filler(model, file);
    return AnswerWithEncoder(request, model, file.encoded, "texts filled in",
                             [&](ForwardPass& pass, const std::vector<int64_t>& numbers,
                                 const std::vector<torch::Tensor>& outputs) {
                               return filler.Answer(pass, numbers, outputs);
                             });
  }
  absl::StatusOr<std::vector<Prompt>> PromptsOf(const GenerateRequest& request,
                                                TextModel& /*model*/) const override {
    return GeneratesNone(request, *this);
  }
};

}  // namespace

const Task* MaskedLm() {
  static const auto& task = *new MaskedLmTask;
  return &task;
}

}  // namespace spillway
