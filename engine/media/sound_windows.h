// Sounds of any length in pieces that a speech model hears at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/media/audio_file.h"
#include "engine/media/log_mel.h"

namespace spillway {

// Samples [first, first + count) of a file, at kSpeechRate.
struct SoundWindow {
  std::string path;
  int64_t first = 0, count = 0;
};

// Windows of at most `longest` samples, side by side, that have all of the file's sound. One that
// is followed by another ends where the last sixth of it is quietest. Memory does not depend on the
// file. kInvalidArgument as of AudioFile, and for a file without sound.
absl::StatusOr<std::vector<SoundWindow>> CutSound(const std::string& path, int64_t longest);

// Reads windows; quickly where they come in their order. One thread.
class SoundReader {
 public:
  // [bands, frames] of the window, as LogMel makes them.
  absl::StatusOr<std::vector<float>> Frames(const SoundWindow& window, const LogMel& mel,
                                            int64_t frames);

 private:
  std::unique_ptr<AudioFile> file_;
  std::string path_;  // the file's
  int64_t at_ = 0;    // its next sample
};

}  // namespace spillway
