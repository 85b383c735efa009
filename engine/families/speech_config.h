// The input of speech encoders: log-mel frames (engine/media/log_mel.h), which two convolutions
// reduce to one position per two frames.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace spillway {

// SpecAugment (Park et al., 2019): in training, random runs of frames or bands are zeroed, drawn as
// transformers' _compute_mask_indices draws them.
struct SpeechMask {
  double share = 0;  // approximate share that is masked; 0: none
  int64_t length = 10;
  int64_t least = 0;  // minimum number of masks per sample

  bool operator==(const SpeechMask&) const = default;
};

struct SpeechConfig {
  int64_t bands = 80;
  SpeechMask frames_mask, bands_mask;

  bool operator==(const SpeechConfig&) const = default;
};

// Kernel size of each convolution, in positions.
inline constexpr int64_t kSpeechKernel = 3;
// Frames per encoder position.
inline constexpr int64_t kSpeechFramesPerPosition = 2;

// Checks that the preprocessor_config.json of `model_directory`, if there is one, describes the
// features that are computed here; otherwise kInvalidArgument, "FILE:LINE: ...".
absl::Status CheckSpeechPreprocessor(const std::string& model_directory,
                                     const SpeechConfig& config);

}  // namespace spillway
