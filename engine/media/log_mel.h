// What speech models hear: the logarithm of a sound's energy by mel bands, 100 times a second. As
// transformers' WhisperFeatureExtractor makes it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace spillway {

// Samples from one frame to the next, at kSpeechRate (engine/media/audio_file.h).
inline constexpr int64_t kMelHop = 160;

// Immutable: any thread.
class LogMel {
 public:
  // `bands`: at least 1, as 80 or 128.
  explicit LogMel(int64_t bands);
  ~LogMel();

  int64_t bands() const { return bands_; }

  // The frames of a sound of frames * kMelHop samples, which is silent where `samples` ends and cut
  // where it does not. `out` [bands, frames] fp32: log10 of each band's energy, at most 8 below the
  // loudest, as (x + 4) / 4. Computed in double. REQUIRES: frames >= 2.
  void Compute(absl::Span<const float> samples, int64_t frames, float* out) const;

 private:
  // Weights of a band's frequencies, from `first` on.
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
