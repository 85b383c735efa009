#include "tools/compute/fill_masks.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/data/labelled_samples.h"
#include "engine/data/line_reader.h"
#include "engine/data/masked_texts.h"
#include "io/base/status.h"
#include "tools/compute/encoder_answers.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kShownTokens = 5;

struct MaskedFile {
  std::vector<LabelledText> texts;
  std::vector<std::vector<int64_t>> masks;  // [text] where they are
  EncodedFile encoded;
};

// Of a .txt each line that is not empty.
absl::Status ReadTexts(const PredictTask& task,
                       const std::function<absl::Status(const LabelledText&)>& take) {
  if (!absl::EndsWith(task.data, ".txt")) {
    return ReadLabelledTexts(task.data, task.text_keys, /*needs_label=*/false, take);
  }
  return ReadLines(task.data, [&](absl::string_view line, int64_t number) {
    LabelledText text;
    text.first = std::string(absl::StripAsciiWhitespace(line));
    text.line = number;
    if (text.first.empty()) return absl::OkStatus();
    return Annotate(take(text), absl::StrCat(task.data, ":", number));
  });
}

absl::Status ReadMaskedFile(const PredictTask& task, const TextModel& model, MaskedFile& file) {
  const TransformerConfig& config = model.config.transformer;
  ASSIGN_OR_RETURN(const int64_t mask, MaskTokenOf(model.tokenizer.get()));
  ASSIGN_OR_RETURN(const std::string written, model.tokenizer->Decode({mask}));
  ASSIGN_OR_RETURN(const int64_t longest, LongestText(task, config));
  TextPairEncoder encoder(model.tokenizer.get(), &config, longest);
  RETURN_IF_ERROR(ReadTexts(task, [&](const LabelledText& text) -> absl::Status {
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
    return absl::InvalidArgumentError(absl::StrCat(task.data, ": there are no texts in it"));
  }
  file.encoded.WarnOfCut(task, encoder.cut());
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

}  // namespace

absl::StatusOr<bool> FillMasksOfFile(const PredictTask& task, TextModel& model) {
  MaskedFile file;
  RETURN_IF_ERROR(ReadMaskedFile(task, model, file));
  MaskFiller filler(model, file);
  return AnswerWithEncoder(task, model, file.encoded, "texts filled in",
                           [&](ForwardPass& pass, const std::vector<int64_t>& numbers,
                               const std::vector<torch::Tensor>& outputs) {
                             return filler.Answer(pass, numbers, outputs);
                           });
}

}  // namespace spillway
