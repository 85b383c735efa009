#include "engine/datasets/question_dataset.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/torch/text_batch.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {

int64_t QuestionDataset::LengthFor(int64_t longest) const {
  return options_.pad_to_max_length ? options_.seq_len : PaddedLength(longest, options_.seq_len);
}

absl::StatusOr<Batch> QuestionDataset::Get(absl::Span<const int64_t> samples) {
  std::vector<EncodedText> texts;
  std::vector<int64_t> labels;
  int64_t longest = 0;
  for (const int64_t number : samples) {
    ASSIGN_OR_RETURN(QuestionSamples::Sample sample, samples_->Get(number));
    labels.insert(labels.end(), {sample.window.first, sample.window.last});
    longest = std::max(longest, static_cast<int64_t>(sample.window.text.tokens.size()));
    texts.push_back(std::move(sample.window.text));
  }
  Batch batch = BatchOfTexts(texts, LengthFor(longest), config_->padding_token.value_or(0));
  batch.labels = torch::tensor(labels, torch::kInt64).view({-1, 2});
  return batch;
}

std::string QuestionDataset::fingerprint() const {
  return absl::StrCat(samples_->fingerprint(), "/", options_.seq_len);
}

absl::StatusOr<std::optional<Batch>> QuestionDataset::Largest(int64_t count) {
  const int64_t longest = std::max(samples_->longest(), options_.evaluated_positions);
  return LargestQuestionBatch(*config_, count, LengthFor(longest));
}

Batch LargestQuestionBatch(const TransformerConfig& config, int64_t count, int64_t length) {
  Batch batch = LargestBatchOfTexts(count, length, config.vocabulary);
  batch.labels = torch::zeros({count, 2}, torch::kInt64);
  return batch;
}

namespace {

absl::StatusOr<std::vector<QualityMeasure>> Measure(const QuestionSamples& samples,
                                                    absl::Span<const Judgement> scores,
                                                    const AnswerOptions& options) {
  double exact = 0, f1 = 0;
  int64_t count = 0, number = 0;
  std::vector<ScoredWindow> windows;
  const auto end_question = [&]() -> absl::Status {
    if (windows.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Question question, samples.QuestionOf(number));
    const FoundAnswer answer = FindAnswer(windows, question.context, options);
    std::vector<std::string> right;
    for (const Question::Answer& one : question.answers) right.push_back(one.text);
    const AnswerScore score =
        ScoreAnswer(question.context.substr(answer.begin, answer.end - answer.begin), right);
    exact += score.exact;
    f1 += score.f1;
    ++count;
    windows.clear();
    return absl::OkStatus();
  };
  size_t at = 0;
  for (int64_t i = 0; i < samples.size(); ++i) {
    ASSIGN_OR_RETURN(QuestionSamples::Sample sample, samples.Get(i));
    if (sample.question != number) RETURN_IF_ERROR(end_question());
    number = sample.question;
    ScoredWindow window;
    window.places = std::move(sample.window.places);
    if (at + window.places.size() > scores.size()) {
      windows.clear();  // the question's other windows are not scored
      break;
    }
    for (size_t token = 0; token < window.places.size(); ++token, ++at) {
      window.first.push_back(scores[at].prediction);
      window.last.push_back(scores[at].label);
    }
    windows.push_back(std::move(window));
  }
  RETURN_IF_ERROR(end_question());
  const double percent = count > 0 ? 100.0 / static_cast<double>(count) : std::nan("");
  return std::vector<QualityMeasure>{{"exact_match", exact * percent}, {"f1", f1 * percent}};
}

}  // namespace

std::vector<QualityMeasure> MeasureAnswers(const QuestionSamples& samples,
                                           absl::Span<const Judgement> scores,
                                           const AnswerOptions& options) {
  const auto measures = Measure(samples, scores, options);
  if (measures.ok()) return *measures;
  LogWarning(absl::StrCat("the answers are not measured: ", measures.status().message()));
  return {{"exact_match", std::nan("")}, {"f1", std::nan("")}};
}

}  // namespace spillway
