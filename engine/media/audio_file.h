// Sound out of files (wav, flac, ogg, mp3, whatever libsndfile reads) as speech models take it: one
// channel of 16,000 samples a second.
#pragma once

#include <sndfile.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/media/media_file.h"
#include "engine/media/resampler.h"

namespace spillway {

inline constexpr int64_t kSpeechRate = 16000;  // samples a second

// Reads one file from its beginning to its end, a piece at a time, so that memory does not depend
// on how long it is. Channels are averaged; another rate is converted (Resampler).
// One thread.
class AudioFile {
 public:
  // kNotFound, kInvalidArgument for what is no plain file or no sound, and as of Resampler, all
  // "PATH: ...". As of Read, kCancelled where it goes on for 0.7 s after a signal (StopPatience).
  static absl::StatusOr<std::unique_ptr<AudioFile>> Open(const std::string& path);

  // Appends the next samples, about in [-1, 1], `count` of them, or fewer where the file ends.
  // kInvalidArgument for what cannot be decoded and for samples that are no numbers or
  // beyond 2^32.
  absl::Status Read(int64_t count, std::vector<float>* samples);

  // As long as the file says that it is.
  double seconds() const { return seconds_; }

  // Nothing is left to be read.
  bool ended() const { return ended_ && held_.empty(); }

 private:
  struct CloseFile {
    void operator()(SNDFILE* file) const { sf_close(file); }
  };

  explicit AudioFile(std::string path) : path_(std::move(path)) {}
  // The next piece of the file, converted, to the end of held_.
  absl::Status ReadPiece();

  const std::string path_;
  std::unique_ptr<MediaFile> bytes_;
  std::unique_ptr<SNDFILE, CloseFile> file_;
  double seconds_ = 0;
  int64_t channels_ = 1;
  std::unique_ptr<Resampler> resampler_;  // null: the file's rate is ours
  std::vector<float> frames_, mixed_;     // of a piece
  std::vector<float> held_;               // converted, and not yet asked for
  bool ended_ = false;                    // the file
};

}  // namespace spillway
