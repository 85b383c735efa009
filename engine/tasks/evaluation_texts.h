// Texts that evaluations of a run make of their sources, and what they are worth
// (--predict-with-generate).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/datasets/target_dataset.h"
#include "engine/families/transformer_config.h"
#include "engine/options/sampling_options.h"
#include "engine/tokenizers/tokenizer.h"
#include "engine/torch/text_maker.h"

namespace spillway {

class EvaluationTexts : public TextMaker {
 public:
  // All pointers outlive it. Texts are written as `sampling` says, and those of samples are what
  // they are compared with: as the tokenizer has them, without what they lost of their end.
  EvaluationTexts(TargetDataset* samples, const TransformerConfig* model,
                  const Tokenizer* tokenizer, SamplingOptions sampling)
      : samples_(*samples),
        model_(*model),
        tokenizer_(*tokenizer),
        sampling_(std::move(sampling)) {}

  absl::StatusOr<Batch> BatchOf(absl::Span<const TextBeginning> texts) override;
  int64_t together() const override { return sampling_.beams; }
  int64_t classes() const override { return model_.vocabulary; }
  absl::StatusOr<std::vector<TextCounts>> Make(int64_t begin, int64_t end,
                                               NextTokens& next) override;

 private:
  // Of a few samples, appended.
  absl::Status MakeSome(int64_t begin, int64_t end, NextTokens& next,
                        std::vector<TextCounts>& counts);
  // Without what is given of it.
  absl::StatusOr<std::string> TextOf(absl::Span<const int64_t> target) const;

  TargetDataset& samples_;
  const TransformerConfig& model_;
  const Tokenizer& tokenizer_;
  const SamplingOptions sampling_;
};

}  // namespace spillway
