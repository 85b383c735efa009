#include "engine/datasets/pair_dataset.h"

#include <algorithm>

#include "engine/torch/text_batch.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {

void AddTargets(absl::Span<const absl::Span<const int64_t>> targets,
                const TransformerConfig& config, int64_t length, Batch& batch) {
  const auto count = static_cast<int64_t>(targets.size());
  batch.labels = torch::full({count, length}, kIgnoredLabel, torch::kInt64);
  const torch::Tensor read =
      torch::full({count, length}, config.padding_token.value_or(0), torch::kInt64);
  for (int64_t i = 0; i < count; ++i) {
    const absl::Span<const int64_t> target = targets[i];
    SPILLWAY_CHECK(!target.empty() && static_cast<int64_t>(target.size()) <= length);
    batch.tokens += static_cast<int64_t>(target.size());
    std::copy(target.begin(), target.end(), batch.labels[i].data_ptr<int64_t>());
    int64_t* const input = read[i].data_ptr<int64_t>();
    *input = config.start_token;
    std::copy(target.begin(), target.end() - 1, input + 1);
  }
  batch.fields[kTargetField] = read;
}

Batch BatchOfPairs(const std::vector<TextPair>& pairs, const TransformerConfig& config,
                   const PairLengths& lengths) {
  std::vector<EncodedText> sources;
  std::vector<absl::Span<const int64_t>> targets;
  for (const TextPair& pair : pairs) {
    sources.push_back({pair.source, {}});
    targets.push_back(pair.target);
  }
  Batch batch = BatchOfTexts(sources, lengths.source, config.padding_token.value_or(0));
  batch.fields.erase(kTokenTypesField);
  batch.fields[kSourceField] = batch.inputs;
  AddTargets(targets, config, lengths.target, batch);
  return batch;
}

Batch LargestPairBatch(const TransformerConfig& config, int64_t count, const PairLengths& lengths) {
  std::vector<TextPair> pairs(count);
  int64_t next = 0;
  // Of different tokens: each has a gradient of its own.
  const auto fill = [&](int64_t length, std::vector<int64_t>& tokens) {
    for (int64_t i = 0; i < length; ++i) tokens.push_back(next++ % config.vocabulary);
  };
  for (TextPair& pair : pairs) {
    fill(lengths.source, pair.source);
    fill(lengths.target, pair.target);
  }
  return BatchOfPairs(pairs, config, lengths);
}

PairLengths PairDataset::LengthsFor(const PairLengths& longest) const {
  const PairLengths& most = options_.most;
  if (options_.pad_to_max_length) return most;
  return {PaddedLength(longest.source, most.source), PaddedLength(longest.target, most.target)};
}

absl::StatusOr<Batch> PairDataset::GetWith(absl::Span<const int64_t> samples,
                                           absl::Span<const std::vector<int64_t>> targets,
                                           int64_t length) {
  std::vector<TextPair> pairs;
  PairLengths longest;
  for (size_t i = 0; i < samples.size(); ++i) {
    ASSIGN_OR_RETURN(TextPair pair, samples_->Get(samples[i]));
    pair.target = targets[i];
    longest.source = std::max<int64_t>(longest.source, pair.source.size());
    longest.target = std::max<int64_t>(longest.target, pair.target.size());
    pairs.push_back(std::move(pair));
  }
  PairLengths lengths = LengthsFor(longest);
  if (length > 0) lengths.target = length;
  return BatchOfPairs(pairs, *config_, lengths);
}

absl::StatusOr<std::optional<Batch>> PairDataset::Largest(int64_t count) {
  const PairLengths longest = {std::max(samples_->longest_source(), options_.evaluated.source),
                               std::max(samples_->longest_target(), options_.evaluated.target)};
  PairLengths lengths = LengthsFor(longest);
  lengths.target = std::max(lengths.target, options_.made);
  return LargestPairBatch(*config_, count, lengths);
}

}  // namespace spillway
