// Cuts audio of any length into windows that a speech model can process.
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

// Cuts a file into contiguous windows of at most `longest` samples. A window that is followed by
// another ends at the quietest place of its last sixth. Memory does not depend on the file.
// kInvalidArgument as in AudioFile, and for a file without audio.
absl::StatusOr<std::vector<SoundWindow>> CutSound(const std::string& path, int64_t longest);

// Reads windows; efficient if they are in order. One thread.
class SoundReader {
 public:
  // [bands, frames] of the window, from LogMel.
  absl::StatusOr<std::vector<float>> Frames(const SoundWindow& window, const LogMel& mel,
                                            int64_t frames);

 private:
  std::unique_ptr<AudioFile> file_;
  std::string path_;  // of the current file
  int64_t at_ = 0;    // its next sample
};

}  // namespace spillway
