// question-answering: answers to questions that are parts of a text.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/data/data_file.h"
#include "engine/data/question_samples.h"
#include "engine/data/questions.h"
#include "engine/datasets/question_dataset.h"
#include "engine/layers/span_head.h"
#include "engine/measures/answers.h"
#include "engine/tasks/all_tasks.h"
#include "engine/tasks/classify_task.h"
#include "engine/tasks/encoder_answers.h"
#include "engine/tasks/sampled_data.h"
#include "engine/tasks/text_model.h"
#include "engine/tasks/zero_dataset.h"
#include "engine/torch/text_batch.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/checksum.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kUsualWindow = 384;  // tokens of a window, as in run_qa.py

AnswerOptions AnswerOptionsOf(const QuestionOptions& options) {
  AnswerOptions answers;
  answers.most_tokens = options.most_answer_tokens;
  answers.null_threshold = options.null_threshold;
  return answers;
}

struct QuestionPart {
  std::unique_ptr<QuestionSamples> samples;
  std::unique_ptr<QuestionDataset> dataset;

  DatasetSize Size() const {
    return {.unit = "windows",
            .samples = dataset->size(),
            .tokens = samples->tokens(),
            .labels = 2 * dataset->size()};
  }
};

class QuestionData : public SampledData<QuestionPart> {
 public:
  explicit QuestionData(const TaskInputs& inputs) : SampledData(inputs) {}

  absl::Status Open() {
    return OpenParts([this](const auto& files,
                            QuestionPart& part) { return Read(files, &part != &train_, part); },
                     [this](QuestionPart& part, const QuestionPart* beside) {
                       part.dataset = std::make_unique<QuestionDataset>(
                           part.samples.get(), &model_,
                           QuestionDatasetOptions{config_.seq_len, config_.pad_to_max_length,
                                                  beside ? beside->samples->longest() : 0});
                     });
  }

  std::vector<std::pair<std::string, std::string>> Identity() const override {
    return {{"seq-len", absl::StrCat(config_.seq_len)},
            {"doc-stride", absl::StrCat(config_.questions.doc_stride)},
            {"task", ModelTaskName(ModelTask::kQuestionAnswering)}};
  }

  std::shared_ptr<const LossUnit> measured_loss() const override {
    if (evaluation_.samples == nullptr) return nullptr;
    AnswerOptions options = AnswerOptionsOf(config_.questions);
    const QuestionSamples* const samples = evaluation_.samples.get();
    if (!options.null_threshold && samples->impossible() > 0) options.null_threshold = 0;
    return NewSpanLoss([samples, options](absl::Span<const Judgement> scores) {
      return MeasureAnswers(*samples, scores, options);
    });
  }

 private:
  absl::Status Read(const std::vector<std::string>& files, bool evaluated,
                    QuestionPart& part) const {
    QuestionSamplesOptions options;
    options.tokenizer = inputs_.tokenizer;
    options.windows = {config_.seq_len, config_.questions.doc_stride};
    options.keeps_questions = evaluated;
    options.scratch_directory = ScratchDirectory(config_.train.output);
    ASSIGN_OR_RETURN(part.samples, QuestionSamples::Read(files, model_, options));
    LogInfo(absl::StrCat(
        absl::StrJoin(files, ", "), ": ", part.samples->questions(), " questions",
        part.samples->impossible() > 0
            ? absl::StrCat(", ", part.samples->impossible(), " of them without an answer,")
            : "",
        " with ", part.samples->size(), " windows of their texts; the longest has ",
        part.samples->longest(), " tokens"));
    return absl::OkStatus();
  }
};

// The questions of a file as windows, and the scores of those that are computed.
struct QuestionFile {
  std::vector<Question> questions;
  std::vector<QuestionWindow> windows;
  std::vector<std::pair<int64_t, int64_t>>
      windows_of;  // [question] its first, and one past its last
};

// `scores` [2, T], of a window and its padding.
ScoredWindow Scored(const QuestionWindow& window, const torch::Tensor& scores) {
  const auto tokens = static_cast<int64_t>(window.text.tokens.size());
  const torch::Tensor both = scores.narrow(1, 0, tokens).contiguous();
  const float* const first = both.const_data_ptr<float>();
  return {{first, first + tokens}, {first + tokens, first + 2 * tokens}, window.places};
}

ordered_json AnswerRow(const Question& question, const FoundAnswer& answer) {
  const absl::string_view context = question.context;
  const auto characters = [&](int64_t bytes) {
    int64_t count = 0;
    for (int64_t i = 0; i < bytes; ++i) count += (context[i] & 0xc0) != 0x80 ? 1 : 0;
    return count;
  };
  return {{"id", question.id},
          {"question", question.question},
          {"answer", std::string(context.substr(answer.begin, answer.end - answer.begin))},
          {"start", characters(answer.begin)},
          {"end", characters(answer.end)},
          {"score", answer.probability}};
}

class QuestionAnsweringTask : public Task {
 public:
  ModelTask kind() const override { return ModelTask::kQuestionAnswering; }
  const char* model_does() const override { return "answers questions about texts"; }
  bool Fits(const ModelConfig& model) const override { return model.transformer.finds_spans; }

  absl::Status CheckFile(absl::string_view flag, const std::string& path,
                         const std::string& /*model*/) const override {
    return CheckDataFile(flag, path, DataUse::kQuestions);
  }
  absl::Status Resolve(RunConfig& config, ModelConfig& model) const override {
    RETURN_IF_ERROR(ResolveLength("--seq-len", model.transformer.longest_sequence(), kUsualWindow,
                                  &config.seq_len));
    return RefusePacking(config, "questions");
  }

  absl::StatusOr<std::unique_ptr<TaskData>> OpenData(const TaskInputs& inputs) const override {
    auto data = std::make_unique<QuestionData>(inputs);
    RETURN_IF_ERROR(data->Open());
    return data;
  }
  absl::StatusOr<std::unique_ptr<Dataset>> LargestData(
      const RunConfig& config, const ModelConfig& model,
      const SampleLengths& lengths) const override {
    return NewZeroDataset(config, [lengths, transformer = model.transformer](int64_t count) {
      return LargestQuestionBatch(transformer, count, lengths.source);
    });
  }

  absl::Status Prepare(const TextRequest& request, TextModel& model) const override {
    RETURN_IF_ERROR(RefuseGenerationFlags(request, model));
    return OpenTokenizer(request, model);
  }
  absl::StatusOr<bool> Predict(const PredictRequest& request, TextModel& model) const override;
  absl::StatusOr<std::vector<Prompt>> PromptsOf(const GenerateRequest& request,
                                                TextModel& /*model*/) const override {
    return GeneratesNone(request, *this);
  }
};

absl::StatusOr<QuestionFile> ReadQuestionFile(const PredictRequest& request,
                                              const TextModel& model) {
  const TransformerConfig& config = model.config.transformer;
  ASSIGN_OR_RETURN(int64_t longest, LongestText(request, config));
  if (!request.max_length) longest = std::min(longest, kUsualWindow);
  QuestionFile file;
  RETURN_IF_ERROR(ReadQuestions(
      request.data, /*needs_answers=*/false, [&](const Question& question) -> absl::Status {
        ASSIGN_OR_RETURN(
            std::vector<QuestionWindow> windows,
            WindowsOf(question, *model.tokenizer, config, {longest, request.questions.doc_stride}));
        const auto begin = static_cast<int64_t>(file.windows.size());
        for (QuestionWindow& window : windows) file.windows.push_back(std::move(window));
        file.windows_of.emplace_back(begin, file.windows.size());
        file.questions.push_back(question);
        return absl::OkStatus();
      }));
  return file;
}

// Each row is a question, and its samples are all windows of its text.
BatchedRows RowsOf(const PredictRequest& request, const TextModel& model,
                   const QuestionFile& file) {
  const TransformerConfig& config = model.config.transformer;
  Digest digest;
  for (const QuestionWindow& window : file.windows) {
    digest.Update(window.text.tokens.data(), window.text.tokens.size() * sizeof(int64_t));
  }
  const QuestionOptions& options = request.questions;
  BatchedRows rows;
  rows.kind = "questions";
  rows.count = static_cast<int64_t>(file.questions.size());
  rows.fingerprint = absl::StrFormat(
      "%016x-%d-%d-%s", digest.value(), options.doc_stride, options.most_answer_tokens,
      options.null_threshold ? absl::StrCat(*options.null_threshold) : "none");
  const auto longest = [&file](int64_t number) {
    int64_t tokens = 0;
    for (int64_t i = file.windows_of[number].first; i < file.windows_of[number].second; ++i) {
      tokens = std::max(tokens, static_cast<int64_t>(file.windows[i].text.tokens.size()));
    }
    return tokens;
  };
  rows.hidden_bytes = [&file, &config, longest](int64_t number) {
    const auto [begin, end] = file.windows_of[number];
    return static_cast<uint64_t>((end - begin) * longest(number) * config.hidden) * sizeof(float);
  };
  rows.batch = [&file, &config,
                longest](absl::Span<const int64_t> numbers) -> absl::StatusOr<Batch> {
    std::vector<EncodedText> texts;
    int64_t tokens = 0;
    for (const int64_t number : numbers) {
      for (int64_t i = file.windows_of[number].first; i < file.windows_of[number].second; ++i) {
        texts.push_back(file.windows[i].text);
      }
      tokens = std::max(tokens, longest(number));
    }
    return BatchOfTexts(texts, PaddedLength(tokens, config.longest_sequence()),
                        config.padding_token.value_or(0));
  };
  return rows;
}

absl::StatusOr<bool> QuestionAnsweringTask::Predict(const PredictRequest& request,
                                                    TextModel& model) const {
  RETURN_IF_ERROR(CheckEncoderRequest(request, DataUse::kQuestions));
  RETURN_IF_ERROR(
      RefuseRequest(!request.text_keys.label.empty() || !request.text_keys.texts.empty(),
                    "--text-keys and --label-key", "classify texts", request, model));
  RETURN_IF_ERROR(RefuseRequest(!request.prompt_key.empty() || request.chat,
                                "--prompt-key and --chat", "continue texts", request, model));
  ASSIGN_OR_RETURN(const QuestionFile file, ReadQuestionFile(request, model));
  const AnswerOptions options = AnswerOptionsOf(request.questions);
  return AnswerInBatches(
      request, model, RowsOf(request, model, file), "questions answered",
      [&](ForwardPass&, const std::vector<int64_t>& numbers,
          const std::vector<torch::Tensor>& outputs) -> absl::StatusOr<std::vector<ordered_json>> {
        std::vector<ordered_json> answers;
        size_t next = 0;  // of the outputs, one for each window
        for (const int64_t number : numbers) {
          const Question& question = file.questions[number];
          std::vector<ScoredWindow> windows;
          for (int64_t i = file.windows_of[number].first; i < file.windows_of[number].second; ++i) {
            windows.push_back(Scored(file.windows[i], outputs[next++]));
          }
          answers.push_back(AnswerRow(question, FindAnswer(windows, question.context, options)));
        }
        return answers;
      });
}

}  // namespace

const Task* QuestionAnswering() {
  static const auto& task = *new QuestionAnsweringTask;
  return &task;
}

}  // namespace spillway
