// Questions and windows of their texts as a Dataset, for encoders that find answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/question_samples.h"
#include "engine/measures/answers.h"
#include "engine/numeric/quality.h"
#include "engine/torch/model.h"

namespace spillway {

struct QuestionDatasetOptions {
  int64_t seq_len = 0;
  bool pad_to_max_length = false;   // to seq_len, and not only to the longest
  int64_t evaluated_positions = 0;  // of the longest window that is evaluated beside it
};

// Batches as of engine/torch/text_batch.h, T as of PaddedLength, with labels as of
// engine/layers/span_head.h.
class QuestionDataset : public Dataset {
 public:
  // Both outlive it.
  QuestionDataset(const QuestionSamples* samples, const TransformerConfig* config,
                  const QuestionDatasetOptions& options)
      : samples_(samples), config_(config), options_(options) {}

  int64_t size() const override { return samples_->size(); }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override;
  std::string fingerprint() const override;
  absl::StatusOr<std::optional<Batch>> Largest(int64_t count) override;

 private:
  int64_t LengthFor(int64_t longest) const;

  const QuestionSamples* const samples_;
  const TransformerConfig* const config_;
  const QuestionDatasetOptions options_;
};

// A batch that takes as much memory as any of so many windows of at most that length.
Batch LargestQuestionBatch(const TransformerConfig& config, int64_t count, int64_t length);

// "exact_match" and "f1" (0 to 100) of the answers that `scores` (MeasureSpans of
// engine/layers/span_head.h) give, over the questions all of whose windows are scored; the scores
// are those of the samples' first windows. Not numbers where there is no such question. REQUIRES:
// the samples keep their questions.
std::vector<QualityMeasure> MeasureAnswers(const QuestionSamples& samples,
                                           absl::Span<const Judgement> scores,
                                           const AnswerOptions& options);

}  // namespace spillway
