// Sounds with their texts as a Dataset, for models of speech (TransformerConfig::hears).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/speech_reader.h"
#include "engine/data/speech_samples.h"
#include "engine/datasets/target_dataset.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// Number of frames in the model's input, and their duration in seconds.
int64_t SpeechFramesOf(const TransformerConfig& config);
double SpeechSecondsOf(const TransformerConfig& config);

// Inputs [1, bands, frames] fp32 in host memory. REQUIRES: `frames` has a multiple of `bands`
// values.
torch::Tensor SpeechInput(const std::vector<float>& frames, int64_t bands);

// A batch whose memory is the maximum for `count` sounds with texts of at most `target_length`
// tokens.
Batch LargestSpeechBatch(const TransformerConfig& config, int64_t count, int64_t target_length);

struct SpeechDatasetOptions {
  int64_t max_target_length = 0;   // tokens of a text
  bool pad_to_max_length = false;  // to max_target_length instead of the longest
  int64_t evaluated = 0;           // the longest in the held-out data
  int64_t made = 0;                // of the longest text that evaluations generate
};

// Sounds are padded with silence, so that all have the model's number of frames, which are computed
// on a separate thread.
class SpeechDataset : public TargetDataset {
 public:
  // Both outlive the object.
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
