// Texts with masked tokens as a Dataset, for encoders.
#pragma once

#include <cstdint>
#include <string>

#include "engine/data/masked_texts.h"
#include "engine/data/token_masking.h"
#include "engine/families/transformer_config.h"
#include "engine/torch/model.h"

namespace spillway {

struct MaskedDatasetOptions {
  int64_t seq_len = 0;
  bool pad_to_max_length = false;   // to seq_len, and not only to the longest
  int64_t evaluated_positions = 0;  // of the longest text that is evaluated beside it
  MaskingRule rule;
};

// Batches as of engine/torch/text_batch.h, T as of PaddedLength, with labels [samples, T]: the
// tokens that were there where some are masked, elsewhere kIgnoredLabel. Drawn, a text is masked by
// the number of the draw, and so anew in every epoch; got, by its own, and so always alike.
class MaskedDataset : public Dataset {
 public:
  // Both outlive it.
  MaskedDataset(const MaskedTexts* texts, const TransformerConfig* config,
                const MaskedDatasetOptions& options)
      : texts_(texts), config_(config), options_(options) {}

  int64_t size() const override { return texts_->size(); }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override;
  absl::StatusOr<Batch> Draw(absl::Span<const int64_t> samples, int64_t first_draw) override;
  std::string fingerprint() const override;
  absl::StatusOr<std::optional<Batch>> Largest(int64_t count) override;

 private:
  absl::StatusOr<Batch> Make(absl::Span<const int64_t> samples, MaskingUse use,
                             absl::Span<const int64_t> numbers) const;
  int64_t LengthFor(int64_t longest) const;

  const MaskedTexts* const texts_;
  const TransformerConfig* const config_;
  const MaskedDatasetOptions options_;
};

// A batch that takes as much memory as any of so many texts of at most that length, of whose tokens
// so many are masked as MostMasked has it.
Batch LargestMaskedBatch(const TransformerConfig& config, int64_t count, int64_t length,
                         double probability);

}  // namespace spillway
