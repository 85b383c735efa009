// Computes the frames of audio samples (engine/media/log_mel.h) ahead of the training step, on a
// thread of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/speech_samples.h"
#include "engine/media/log_mel.h"
#include "io/base/mutex.h"

namespace spillway {

class SpeechReader {
 public:
  // `samples` outlives it. `frames`: per sample.
  SpeechReader(const SpeechSamples* samples, int64_t bands, int64_t frames);
  ~SpeechReader();

  int64_t bands() const { return mel_.bands(); }
  int64_t frames() const { return frames_; }

  // Announces the next samples: as many as fit are computed in advance, and previous results that
  // were not fetched are dropped.
  void Prepare(absl::Span<const int64_t> samples);

  // [bands, frames]; waits for one that is being computed. Errors name the row and the audio file.
  absl::StatusOr<std::vector<float>> Get(int64_t sample);

 private:
  using Frames = absl::StatusOr<std::vector<float>>;

  Frames Make(int64_t sample) const;
  void Run();

  const SpeechSamples* const samples_;
  const LogMel mel_;
  const int64_t frames_;
  const size_t at_most_;  // samples that are computed in advance

  Mutex mutex_;
  CondVar changed_;
  std::deque<int64_t> wanted_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, Frames> made_ ABSL_GUARDED_BY(mutex_);
  int64_t making_ ABSL_GUARDED_BY(mutex_) = -1;  // a sample; -1: none
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spillway
