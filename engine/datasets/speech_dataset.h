// Sounds with their texts as a Dataset, for models that hear (TransformerConfig::hears).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/speech_reader.h"
#include "engine/data/speech_samples.h"
#include "engine/datasets/target_dataset.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// Frames that the model hears, and their seconds.
int64_t SpeechFramesOf(const TransformerConfig& config);
double SpeechSecondsOf(const TransformerConfig& config);

// Inputs [1, bands, frames] fp32 in the host's memory. REQUIRES: as many numbers.
torch::Tensor SpeechInput(const std::vector<float>& frames, int64_t bands);

// One that takes as much memory as any of so many sounds with texts of at most so many tokens.
Batch LargestSpeechBatch(const TransformerConfig& config, int64_t count, int64_t target_length);

struct SpeechDatasetOptions {
  int64_t max_target_length = 0;   // tokens of a text
  bool pad_to_max_length = false;  // to these, and not only to the longest of a micro-batch
  int64_t evaluated = 0;           // the longest that are evaluated beside it
  int64_t made = 0;                // tokens of the longest text that evaluations make
};

// A sound is silent behind its end, so that all have as many frames as the model hears; they are
// made on a thread of its own.
class SpeechDataset : public TargetDataset {
 public:
  // Both outlive it.
  SpeechDataset(const SpeechSamples* samples, const TransformerConfig* config,
                const SpeechDatasetOptions& options);

  int64_t size() const override { return samples_->size(); }
  void Prepare(absl::Span<const int64_t> samples) override { reader_.Prepare(samples); }
  absl::StatusOr<TextPair> Pair(int64_t sample) override;
  int64_t given_tokens() const override { return samples_->prefix_tokens(); }
  absl::StatusOr<Batch> GetWith(absl::Span<const int64_t> samples,
                                absl::Span<const std::vector<int64_t>> targets,
                                int64_t length) override;
  std::string fingerprint() const override { return samples_->fingerprint(); }
  absl::StatusOr<std::optional<Batch>> Largest(int64_t count) override;

 private:
  int64_t LengthFor(int64_t longest) const;

  const SpeechSamples* const samples_;
  const TransformerConfig* const config_;
  const SpeechDatasetOptions options_;
  SpeechReader reader_;
};

}  // namespace spillway
