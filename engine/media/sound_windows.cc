#include "engine/media/sound_windows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr int64_t kHush = kSpeechRate / 10;     // samples whose energy is compared
constexpr int64_t kSkipped = kSpeechRate * 10;  // skipped in reads of this size

// The middle of the quietest kHush samples in [from, end); `end` if there are fewer.
int64_t QuietestAfter(int64_t from, int64_t end, const std::vector<float>& samples) {
  int64_t best = end;
  double least = 0;
  for (int64_t begin = from; begin + kHush <= end; begin += kHush / 2) {
    double energy = 0;
    for (int64_t i = begin; i < begin + kHush; ++i) {
      energy += static_cast<double>(samples[i]) * static_cast<double>(samples[i]);
    }
    if (best < end && energy >= least) continue;
    least = energy;
    best = begin + kHush / 2;
  }
  return best;
}

}  // namespace

absl::StatusOr<std::vector<SoundWindow>> CutSound(const std::string& path, int64_t longest) {
  ASSIGN_OR_RETURN(const auto file, AudioFile::Open(path));
  std::vector<SoundWindow> windows;
  std::vector<float> samples;  // from the next window's start on; one more than it may have
  for (int64_t first = 0; true;) {
    RETURN_IF_ERROR(file->Read(longest + 1 - static_cast<int64_t>(samples.size()), &samples));
    const auto left = static_cast<int64_t>(samples.size());
    if (left == 0) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": there is no sound in it"));
    }
    const int64_t count =
        left > longest ? QuietestAfter(longest - longest / 6, longest, samples) : left;
    windows.push_back({path, first, count});
    if (count == left) return windows;
    first += count;
    samples.erase(samples.begin(), samples.begin() + count);
  }
}

absl::StatusOr<std::vector<float>> SoundReader::Frames(const SoundWindow& window, const LogMel& mel,
                                                       int64_t frames) {
  if (file_ == nullptr || path_ != window.path || at_ > window.first) {
    ASSIGN_OR_RETURN(file_, AudioFile::Open(window.path));
    path_ = window.path;
    at_ = 0;
  }
  std::vector<float> samples;
  while (at_ < window.first && !file_->ended()) {
    samples.clear();
    RETURN_IF_ERROR(file_->Read(std::min(kSkipped, window.first - at_), &samples));
    at_ += static_cast<int64_t>(samples.size());
  }
  samples.clear();
  RETURN_IF_ERROR(file_->Read(window.count, &samples));
  at_ += static_cast<int64_t>(samples.size());
  std::vector<float> made(mel.bands() * frames);
  mel.Compute(samples, frames, made.data());
  return made;
}

}  // namespace spillway
