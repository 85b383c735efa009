// Pairs of texts as a Dataset, for models with an encoder and a decoder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/paired_samples.h"
#include "engine/datasets/target_dataset.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// Numbers of positions in a batch.
struct PairLengths {
  int64_t source = 0, target = 0;
};

// Adds the decoder's part of a batch: it reads config.start_token followed by the target without
// its last token, [samples, length]; labels are the target, padded with kIgnoredLabel. REQUIRES: no
// target is empty, or longer than `length`.
void AddTargets(absl::Span<const absl::Span<const int64_t>> targets,
                const TransformerConfig& config, int64_t length, Batch& batch);

// The fields of engine/torch/text_batch.h for encoder and decoder. Inputs are the sources.
// REQUIRES: no text is empty, or longer than `lengths`.
Batch BatchOfPairs(const std::vector<TextPair>& pairs, const TransformerConfig& config,
                   const PairLengths& lengths);

// A batch whose memory is the maximum for `count` pairs of at most these lengths.
Batch LargestPairBatch(const TransformerConfig& config, int64_t count, const PairLengths& lengths);

struct PairDatasetOptions {
  PairLengths most;                // of each text
  bool pad_to_max_length = false;  // to `most` instead of the longest
  PairLengths evaluated = {};      // the longest in the held-out data
  int64_t made = 0;                // of the longest text that evaluations generate
};

class PairDataset : public TargetDataset {
 public:
  // Both outlive the object.
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
