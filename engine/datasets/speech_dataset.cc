#include "engine/datasets/speech_dataset.h"

#include <algorithm>

#include "engine/datasets/pair_dataset.h"
#include "engine/media/audio_file.h"
#include "engine/torch/text_batch.h"
#include "io/base/status.h"

namespace spillway {

int64_t SpeechFramesOf(const TransformerConfig& config) {
  return config.encoder->positions * kSpeechFramesPerPosition;
}

double SpeechSecondsOf(const TransformerConfig& config) {
  return static_cast<double>(SpeechFramesOf(config) * kMelHop) / static_cast<double>(kSpeechRate);
}

torch::Tensor SpeechInput(const std::vector<float>& frames, int64_t bands) {
  return torch::tensor(frames).view({1, bands, -1});
}

Batch LargestSpeechBatch(const TransformerConfig& config, int64_t count, int64_t target_length) {
  Batch batch;
  batch.inputs = torch::zeros({count, config.encoder->speech->bands, SpeechFramesOf(config)});
  std::vector<int64_t> tokens(count * target_length);
  // Of different tokens: each has a gradient of its own.
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int64_t>(i) % config.vocabulary;
  std::vector<absl::Span<const int64_t>> targets;
  for (int64_t i = 0; i < count; ++i) {
    targets.emplace_back(tokens.data() + i * target_length, target_length);
  }
  AddTargets(targets, config, target_length, batch);
  return batch;
}

SpeechDataset::SpeechDataset(const SpeechSamples* samples, const TransformerConfig* config,
                             const SpeechDatasetOptions& options)
    : samples_(samples),
      config_(config),
      options_(options),
      reader_(samples, config->encoder->speech->bands, SpeechFramesOf(*config)) {}

int64_t SpeechDataset::LengthFor(int64_t longest) const {
  return options_.pad_to_max_length ? options_.max_target_length
                                    : PaddedLength(longest, options_.max_target_length);
}

absl::StatusOr<TextPair> SpeechDataset::Pair(int64_t sample) {
  ASSIGN_OR_RETURN(SpeechSample one, samples_->Get(sample));
  return TextPair{{}, std::move(one.target)};
}

absl::StatusOr<Batch> SpeechDataset::GetWith(absl::Span<const int64_t> samples,
                                             absl::Span<const std::vector<int64_t>> targets,
                                             int64_t length) {
  Batch batch;
  batch.inputs = torch::empty(
      {static_cast<int64_t>(samples.size()), reader_.bands(), reader_.frames()}, torch::kFloat32);
  std::vector<absl::Span<const int64_t>> texts;
  int64_t longest = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    texts.push_back(targets[i]);
    longest = std::max<int64_t>(longest, targets[i].size());
    ASSIGN_OR_RETURN(const std::vector<float> frames, reader_.Get(samples[i]));
    std::copy(frames.begin(), frames.end(),
              batch.inputs[static_cast<int64_t>(i)].data_ptr<float>());
  }
  AddTargets(texts, *config_, length > 0 ? length : LengthFor(longest), batch);
  return batch;
}

absl::StatusOr<std::optional<Batch>> SpeechDataset::Largest(int64_t count) {
  const int64_t length = LengthFor(std::max(samples_->longest_target(), options_.evaluated));
  return LargestSpeechBatch(*config_, count, std::max(length, options_.made));
}

}  // namespace spillway
