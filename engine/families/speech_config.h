// What an encoder hears in place of reading tokens: frames of a sound's energy by mel bands
// (engine/media/log_mel.h), which two convolutions bring together, two frames a position.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace spillway {

// SpecAugment (Park et al., 2019): in training some runs of frames, or of bands, are silenced. As
// transformers' _compute_mask_indices draws them.
struct SpeechMask {
  double share = 0;  // of all that is masked, about; 0: nothing is
  int64_t length = 10;
  int64_t least = 0;  // masks of a sample

  bool operator==(const SpeechMask&) const = default;
};

struct SpeechConfig {
  int64_t bands = 80;
  SpeechMask frames_mask, bands_mask;

  bool operator==(const SpeechConfig&) const = default;
};

// Neighbours that each of the convolutions sees.
inline constexpr int64_t kSpeechKernel = 3;
// Frames that become one position.
inline constexpr int64_t kSpeechFramesPerPosition = 2;

// Whether the preprocessor_config.json of `model_directory`, where there is one, says that sounds
// are heard as they are here; kInvalidArgument, "FILE:LINE: ...", where it does not.
absl::Status CheckSpeechPreprocessor(const std::string& model_directory,
                                     const SpeechConfig& config);

}  // namespace spillway
