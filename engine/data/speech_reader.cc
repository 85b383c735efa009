#include "engine/data/speech_reader.h"

#include <algorithm>

#include "engine/data/steady_file.h"
#include "engine/media/sound_windows.h"
#include "io/base/status.h"
#include "io/base/thread_name.h"
#include "io/file_system.h"

namespace spillway {
namespace {

// Limit of results computed ahead, whose memory is not in the budgets, like threads' stacks.
constexpr uint64_t kMostBytesAhead = uint64_t{16} << 20;

}  // namespace

SpeechReader::SpeechReader(const SpeechSamples* samples, int64_t bands, int64_t frames)
    : samples_(samples),
      mel_(bands),
      frames_(frames),
      at_most_(std::max<uint64_t>(1, kMostBytesAhead / (bands * frames * sizeof(float)))),
      thread_([this] { Run(); }) {}

SpeechReader::~SpeechReader() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void SpeechReader::Prepare(absl::Span<const int64_t> samples) {
  const MutexLock lock(mutex_);
  const auto ahead = samples.subspan(0, std::min(samples.size(), at_most_));
  const auto is_ahead = [&](int64_t sample) {
    return std::find(ahead.begin(), ahead.end(), sample) != ahead.end();
  };
  for (auto made = made_.begin(); made != made_.end();) {
    made = is_ahead(made->first) ? std::next(made) : made_.erase(made);
  }
  wanted_.clear();
  for (const int64_t sample : ahead) {
    if (made_.count(sample) == 0 && sample != making_) wanted_.push_back(sample);
  }
  changed_.NotifyAll();
}

absl::StatusOr<std::vector<float>> SpeechReader::Get(int64_t sample) {
  {
    const MutexLock lock(mutex_);
    wanted_.erase(std::remove(wanted_.begin(), wanted_.end(), sample), wanted_.end());
    while (making_ == sample) changed_.Wait(mutex_);
    const auto found = made_.find(sample);
    if (found != made_.end()) {
      Frames frames = std::move(found->second);
      made_.erase(found);
      return frames;
    }
  }
  return Make(sample);
}

SpeechReader::Frames SpeechReader::Make(int64_t sample) const {
  ASSIGN_OR_RETURN(const SpeechSample one, samples_->Get(sample));
  Frames frames = SoundReader().Frames({one.path, 0, frames_ * kMelHop}, mel_, frames_);
  // Checked after reading, so that a change during it is noticed.
  const std::string changed =
      DescribeChange(one.info, FileSystem::Real().Stat(one.path, SymbolicLink::kFollow));
  if (!changed.empty()) frames = DataChangedError(one.path, changed);
  if (!frames.ok()) return Annotate(frames.status(), one.row);
  return frames;
}

void SpeechReader::Run() {
  NameThisThread("spill-speech");
  const MutexLock lock(mutex_);
  while (true) {
    while (wanted_.empty() && !ends_) changed_.Wait(mutex_);
    if (ends_) return;
    const int64_t sample = making_ = wanted_.front();
    wanted_.pop_front();
    mutex_.Unlock();
    Frames frames = Make(sample);
    mutex_.Lock();
    made_.emplace(sample, std::move(frames));
    making_ = -1;
    changed_.NotifyAll();
  }
}

}  // namespace spillway
