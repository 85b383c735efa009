#include "engine/datasets/masked_dataset.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/torch/text_batch.h"
#include "io/base/status.h"

namespace spillway {

int64_t MaskedDataset::LengthFor(int64_t longest) const {
  return options_.pad_to_max_length ? options_.seq_len : PaddedLength(longest, options_.seq_len);
}

absl::StatusOr<Batch> MaskedDataset::Get(absl::Span<const int64_t> samples) {
  return Make(samples, MaskingUse::kEvaluation, samples);
}

absl::StatusOr<Batch> MaskedDataset::Draw(absl::Span<const int64_t> samples, int64_t first_draw) {
  std::vector<int64_t> numbers(samples.size());
  std::iota(numbers.begin(), numbers.end(), first_draw);
  return Make(samples, MaskingUse::kTraining, numbers);
}

absl::StatusOr<Batch> MaskedDataset::Make(absl::Span<const int64_t> samples, MaskingUse use,
                                          absl::Span<const int64_t> numbers) const {
  std::vector<EncodedText> texts;
  std::vector<std::vector<int64_t>> labels;
  int64_t longest = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    ASSIGN_OR_RETURN(MaskedTexts::Text text, texts_->Get(samples[i]));
    std::vector<int64_t>& tokens = text.encoded.tokens;
    const std::vector<int64_t> whole = tokens;
    std::vector<int64_t>& label = labels.emplace_back(tokens.size(), kIgnoredLabel);
    for (const int64_t at :
         MaskTokens(options_.rule, use, numbers[i], text.may, absl::MakeSpan(tokens))) {
      label[at] = whole[at];
    }
    longest = std::max(longest, static_cast<int64_t>(tokens.size()));
    texts.push_back(std::move(text.encoded));
  }
  Batch batch = BatchOfTexts(texts, LengthFor(longest), config_->padding_token.value_or(0));
  batch.labels = LabelsOfTokens(labels, batch.inputs.size(1));
  return batch;
}

std::string MaskedDataset::fingerprint() const {
  return absl::StrCat(texts_->fingerprint(), "/", options_.seq_len);
}

absl::StatusOr<std::optional<Batch>> MaskedDataset::Largest(int64_t count) {
  const int64_t longest = std::max(texts_->longest(), options_.evaluated_positions);
  return LargestMaskedBatch(*config_, count, LengthFor(longest), options_.rule.probability);
}

Batch LargestMaskedBatch(const TransformerConfig& config, int64_t count, int64_t length,
                         double probability) {
  Batch batch = LargestBatchOfTexts(count, length, config.vocabulary);
  batch.labels = batch.inputs.clone();
  const int64_t masked = MostMasked(count * length, probability);
  batch.labels.flatten().narrow(0, masked, count * length - masked).fill_(kIgnoredLabel);
  return batch;
}

}  // namespace spillway
