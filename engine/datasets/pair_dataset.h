// Pairs of texts as a Dataset, for models with an encoder and a decoder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/paired_samples.h"
#include "engine/datasets/target_dataset.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// Positions of a batch.
struct PairLengths {
  int64_t source = 0, target = 0;
};

// What the decoder learns of a batch: it reads the targets behind config.start_token, each but its
// last token, [samples, length]; labels are the targets, and kIgnoredLabel behind them. REQUIRES:
// no target is empty, or longer.
void AddTargets(absl::Span<const absl::Span<const int64_t>> targets,
                const TransformerConfig& config, int64_t length, Batch& batch);

// The fields of engine/torch/text_batch.h for both. Inputs are the sources. REQUIRES: no text is
// empty, or longer.
Batch BatchOfPairs(const std::vector<TextPair>& pairs, const TransformerConfig& config,
                   const PairLengths& lengths);

// One that takes as much memory as any of so many pairs of at most these lengths.
Batch LargestPairBatch(const TransformerConfig& config, int64_t count, const PairLengths& lengths);

struct PairDatasetOptions {
  PairLengths most;                // of one text
  bool pad_to_max_length = false;  // to these, and not only to the longest
  PairLengths evaluated = {};      // the longest that are evaluated beside it
  int64_t made = 0;                // tokens of the longest text that evaluations make
};

class PairDataset : public TargetDataset {
 public:
  // Both outlive it.
  PairDataset(const PairedSamples* samples, const TransformerConfig* config,
              const PairDatasetOptions& options)
      : samples_(samples), config_(config), options_(options) {}

  int64_t size() const override { return samples_->size(); }
  absl::StatusOr<TextPair> Pair(int64_t sample) override { return samples_->Get(sample); }
  absl::StatusOr<Batch> GetWith(absl::Span<const int64_t> samples,
                                absl::Span<const std::vector<int64_t>> targets,
                                int64_t length) override;
  std::string fingerprint() const override { return samples_->fingerprint(); }
  absl::StatusOr<std::optional<Batch>> Largest(int64_t count) override;

 private:
  PairLengths LengthsFor(const PairLengths& longest) const;

  const PairedSamples* const samples_;
  const TransformerConfig* const config_;
  const PairDatasetOptions options_;
};

}  // namespace spillway
