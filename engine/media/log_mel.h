// Log-mel spectrograms, the input of speech models: 100 frames per second, as in transformers'
// WhisperFeatureExtractor.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace spillway {

// Samples between the starts of frames, at kSpeechRate (engine/media/audio_file.h).
inline constexpr int64_t kMelHop = 160;

// Immutable: any thread.
class LogMel {
 public:
  // `bands`: at least 1, typically 80 or 128.
  explicit LogMel(int64_t bands);
  ~LogMel();

  int64_t bands() const { return bands_; }

  // The spectrogram of frames * kMelHop samples; `samples` is padded with silence or cut to that.
  // `out` [bands, frames] fp32: log10 of each band's energy, limited to 8 below the maximum, as (x
  // + 4) / 4. Computed in double. REQUIRES: frames >= 2.
  void Compute(absl::Span<const float> samples, int64_t frames, float* out) const;

 private:
  // Weights of a band's frequencies, starting at `first`.
  struct Band {
    int64_t first = 0;
    std::vector<double> weights;
  };

  struct Transform;  // FFTW's

  const int64_t bands_;
  std::vector<Band> filters_;
  std::vector<double> window_;
  std::unique_ptr<Transform> transform_;
};

}  // namespace spillway
