// Decodes audio files (wav, flac, ogg, mp3, everything that libsndfile reads) for speech models:
// one channel, 16,000 samples a second.
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

// Reads a file sequentially in pieces, so that memory does not depend on its length. Channels are
// averaged; other rates are converted (Resampler). One thread.
class AudioFile {
 public:
  // kNotFound; kInvalidArgument for anything but a plain file with audio; errors of Resampler; all
  // "PATH: ...". Like Read, kCancelled if it continues for 0.7 s after a signal (StopPatience).
  static absl::StatusOr<std::unique_ptr<AudioFile>> Open(const std::string& path);

  // Appends the next `count` samples, mostly in [-1, 1], or fewer at the end of the file.
  // kInvalidArgument for undecodable data and for samples that are NaN or beyond 2^32.
  absl::Status Read(int64_t count, std::vector<float>* samples);

  // Duration in seconds by the file's header.
  double seconds() const { return seconds_; }

  // Whether everything has been read.
  bool ended() const { return ended_ && held_.empty(); }

 private:
  struct CloseFile {
    void operator()(SNDFILE* file) const { sf_close(file); }
  };

  explicit AudioFile(std::string path) : path_(std::move(path)) {}
  // Appends the next piece of the file, converted, to held_.
  absl::Status ReadPiece();

  const std::string path_;
  std::unique_ptr<MediaFile> bytes_;
  std::unique_ptr<SNDFILE, CloseFile> file_;
  double seconds_ = 0;
  int64_t channels_ = 1;
  std::unique_ptr<Resampler> resampler_;  // null: the file's rate is ours
  std::vector<float> frames_, mixed_;     // of one piece
  std::vector<float> held_;               // converted, not yet returned
  bool ended_ = false;                    // the file has ended
};

}  // namespace spillway
