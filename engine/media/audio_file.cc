#include "engine/media/audio_file.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr int64_t kPieceFrames = 1 << 14;
constexpr int64_t kMostChannels = 64;
constexpr int64_t kLowestRate = 1000, kHighestRate = 768000;
// Samples are within -1 and 1, or, if a program did not scale them, within an integer sample's
// range. Far larger ones become infinite in resampling and squaring.
constexpr float kLargestSample = 4294967296.0f;

// libsndfile's access to a MediaFile.
MediaFile& SoundBytes(void* file) { return *static_cast<MediaFile*>(file); }

sf_count_t SeekSound(sf_count_t offset, int whence, void* file) {
  MediaFile& bytes = SoundBytes(file);
  const auto size = static_cast<sf_count_t>(bytes.size_bytes());
  if (whence == SEEK_CUR) offset += static_cast<sf_count_t>(bytes.offset());
  if (whence == SEEK_END) offset += size;
  bytes.Seek(static_cast<uint64_t>(std::clamp<sf_count_t>(offset, 0, size)));
  return static_cast<sf_count_t>(bytes.offset());
}

SF_VIRTUAL_IO kSoundBytes = {
    [](void* file) { return static_cast<sf_count_t>(SoundBytes(file).size_bytes()); }, SeekSound,
    [](void* to, sf_count_t count, void* file) {
      return static_cast<sf_count_t>(SoundBytes(file).Read(to, static_cast<size_t>(count)));
    },
    [](const void*, sf_count_t, void*) { return sf_count_t{0}; },
    [](void* file) { return static_cast<sf_count_t>(SoundBytes(file).offset()); }};

}  // namespace

absl::StatusOr<std::unique_ptr<AudioFile>> AudioFile::Open(const std::string& path) {
  std::unique_ptr<AudioFile> audio(new AudioFile(path));
  ASSIGN_OR_RETURN(audio->bytes_, MediaFile::Open(path));
  SF_INFO info = {};
  audio->file_.reset(sf_open_virtual(&kSoundBytes, SFM_READ, &info, audio->bytes_.get()));
  RETURN_IF_ERROR(audio->bytes_->status());
  if (audio->file_ == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no sound that can be read (",
                                                   sf_strerror(nullptr),
                                                   "): wav, flac, ogg and mp3 can"));
  }
  audio->channels_ = info.channels;
  if (info.channels < 1 || info.channels > kMostChannels || info.samplerate < kLowestRate ||
      info.samplerate > kHighestRate) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", info.channels, " channels of ", info.samplerate,
                     " samples a second; expected 1 to ", kMostChannels, " of ", kLowestRate,
                     " to ", kHighestRate));
  }
  audio->seconds_ = static_cast<double>(info.frames) / info.samplerate;
  if (info.samplerate != kSpeechRate) {
    auto resampler = Resampler::Create(info.samplerate, kSpeechRate);
    if (!resampler.ok()) return Annotate(resampler.status(), path);
    audio->resampler_ = *std::move(resampler);
  }
  return audio;
}

absl::Status AudioFile::Read(int64_t count, std::vector<float>* samples) {
  while (static_cast<int64_t>(held_.size()) < count && !ended_) RETURN_IF_ERROR(ReadPiece());
  const auto end = held_.begin() + std::min<int64_t>(count, held_.size());
  samples->insert(samples->end(), held_.begin(), end);
  held_.erase(held_.begin(), end);
  return absl::OkStatus();
}

absl::Status AudioFile::ReadPiece() {
  frames_.resize(kPieceFrames * channels_);
  const int64_t frames = sf_readf_float(file_.get(), frames_.data(), kPieceFrames);
  bytes_->GivesUp();
  RETURN_IF_ERROR(bytes_->status());
  if (frames < kPieceFrames && sf_error(file_.get()) != SF_ERR_NO_ERROR) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": cannot be decoded to its end: ", sf_strerror(file_.get()),
                     ": make the file again, or take its row out"));
  }
  ended_ = frames <= 0;
  mixed_.assign(std::max<int64_t>(0, frames), 0);
  for (int64_t i = 0; i < frames; ++i) {
    float sum = 0;
    for (int64_t channel = 0; channel < channels_; ++channel) {
      sum += frames_[i * channels_ + channel];
    }
    mixed_[i] = sum / static_cast<float>(channels_);
    if (std::abs(mixed_[i]) <= kLargestSample) continue;  // false for NaN
    return absl::InvalidArgumentError(
        absl::StrCat(path_,
                     ": it has samples that are no sound (not finite, or beyond 2^32, where "
                     "sound is within 1): make the file again, or take its row out"));
  }
  if (resampler_ == nullptr) {
    held_.insert(held_.end(), mixed_.begin(), mixed_.end());
    return absl::OkStatus();
  }
  const absl::Status converted =
      ended_ ? resampler_->Finish(&held_) : resampler_->Convert(mixed_, &held_);
  return converted.ok() ? converted : Annotate(converted, path_);
}

}  // namespace spillway
