// Labelled texts as a Dataset, for encoders.
#pragma once

#include <cstdint>
#include <string>

#include "engine/data/labelled_samples.h"
#include "engine/torch/model.h"

namespace spillway {

struct LabelledDatasetOptions {
  int64_t seq_len = 0;
  bool pad_to_max_length = false;   // to seq_len, and not only to the longest
  int64_t evaluated_positions = 0;  // of the longest text that is evaluated beside it
};

// Batches as of engine/torch/text_batch.h, T as of PaddedLength, with labels as of
// engine/layers/label_loss.h, kIgnoredLabel where a token has none.
class LabelledDataset : public Dataset {
 public:
  // Both outlive it. REQUIRES: config->classifier and its problem.
  LabelledDataset(const LabelledSamples* samples, const TransformerConfig* config,
                  const LabelledDatasetOptions& options)
      : samples_(samples), config_(config), options_(options) {}

  int64_t size() const override { return samples_->size(); }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override;
  std::string fingerprint() const override;
  absl::StatusOr<std::optional<Batch>> Largest(int64_t count) override;

 private:
  int64_t LengthFor(int64_t longest) const;

  const LabelledSamples* const samples_;
  const TransformerConfig* const config_;
  const LabelledDatasetOptions options_;
};

// A batch that takes as much memory as any of so many texts of at most that length. Labels are
// zero. `labels_tokens`: every token has one, and not the text.
Batch LargestLabelledBatch(const TransformerConfig& config, bool labels_tokens, int64_t count,
                           int64_t length);

}  // namespace spillway
