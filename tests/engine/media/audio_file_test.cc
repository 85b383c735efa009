#include "engine/media/audio_file.h"

#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "engine/base/stop_signal.h"
#include "engine/base/work_count.h"
#include "gtest/gtest.h"
#include "tests/engine/data/sound_testing.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

std::vector<float> AllOf(const std::string& path, int64_t piece) {
  const auto file = AudioFile::Open(path);
  SPILLWAY_CHECK(file.ok());
  std::vector<float> samples;
  while (!(*file)->ended()) SPILLWAY_CHECK((*file)->Read(piece, &samples).ok());
  return samples;
}

TEST(AudioFile, SamplesOfOurRateAreThoseOfTheFile) {
  const ScratchDirectory folder;
  const std::vector<float> tone = Tone(440, 40000);
  WriteSound(folder / "a.wav", tone);
  EXPECT_EQ(AllOf(folder / "a.wav", 40000), tone);
  EXPECT_EQ(AllOf(folder / "a.wav", 777), tone);
  EXPECT_DOUBLE_EQ((*AudioFile::Open(folder / "a.wav"))->seconds(), 2.5);
}

TEST(AudioFile, OtherRatesAreConvertedAndChannelsAveraged) {
  const ScratchDirectory folder;
  for (const int rate : {8000, 44100, 48000}) {
    const std::vector<float> tone = Tone(440, rate, rate);
    std::vector<float> six;  // 5.1: the mean is the tone
    for (const float x : tone) six.insert(six.end(), {x, 0, 2 * x, x, 2 * x, 0});
    WriteSound(folder / "b.wav", six, {rate, 6});
    const std::vector<float> made = AllOf(folder / "b.wav", 5000);
    const std::vector<float> expected = Tone(440, kSpeechRate);
    ASSERT_NEAR(static_cast<double>(made.size()), kSpeechRate, 2) << rate;
    // At its ends a filter sees silence.
    for (int64_t t = 800; t < kSpeechRate - 800; ++t) {
      ASSERT_NEAR(made[t], expected[t], 1e-3) << rate << " " << t;
    }
  }
}

TEST(AudioFile, FlacAndOggAreReadToo) {
  const ScratchDirectory folder;
  const std::vector<float> tone = Tone(300, kSpeechRate);
  WriteSound(folder / "c.flac", tone, {16000, 1, SF_FORMAT_FLAC | SF_FORMAT_PCM_16});
  WriteSound(folder / "c.ogg", tone, {16000, 1, SF_FORMAT_OGG | SF_FORMAT_VORBIS});
  for (const auto& [name, within] : {std::pair{"c.flac", 1e-4}, std::pair{"c.ogg", 0.05}}) {
    const std::vector<float> made = AllOf(folder / name, 4096);
    ASSERT_EQ(made.size(), tone.size()) << name;
    for (size_t t = 1000; t + 1000 < tone.size(); ++t) ASSERT_NEAR(made[t], tone[t], within);
  }
}

TEST(AudioFile, WhatIsNoSoundIsNamed) {
  const ScratchDirectory folder;
  const auto missing = AudioFile::Open(folder / "none.wav");
  EXPECT_TRUE(absl::IsNotFound(missing.status())) << missing.status();
  EXPECT_NE(missing.status().message().find("none.wav"), std::string::npos);
  std::ofstream(folder / "text.wav") << "this is no sound at all, whatever its name says";
  const auto text = AudioFile::Open(folder / "text.wav");
  EXPECT_TRUE(absl::IsInvalidArgument(text.status())) << text.status();
  EXPECT_NE(text.status().message().find("text.wav: no sound that can be read"), std::string::npos);
  WriteSound(folder / "nan.wav", {0.5F, std::numeric_limits<float>::quiet_NaN(), 0.5F});
  std::vector<float> samples;
  const absl::Status nan = (*AudioFile::Open(folder / "nan.wav"))->Read(3, &samples);
  EXPECT_TRUE(absl::IsInvalidArgument(nan)) << nan;
  // Between samples of 3.4e38 that differ in sign a converted one would be infinite.
  WriteSound(folder / "loud.wav", std::vector<float>{3.4e38F, -3.4e38F, 3.4e38F, -3.4e38F},
             {.rate = 15488});
  const absl::Status loud = (*AudioFile::Open(folder / "loud.wav"))->Read(4, &samples);
  EXPECT_TRUE(absl::IsInvalidArgument(loud)) << loud;
  EXPECT_NE(loud.message().find("loud.wav: it has samples that are no sound"), std::string::npos);
}

TEST(AudioFile, OnlyPlainFilesAreRead) {
  const ScratchDirectory folder;
  ASSERT_EQ(mkfifo(std::string(folder / "pipe.wav").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", std::string(folder / "zero.flac"));
  for (const std::string& name : {std::string(folder / "pipe.wav"),
                                  std::string(folder / "zero.flac"), std::string(folder.path())}) {
    const absl::Status status = AudioFile::Open(name).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find("is not a plain file"), std::string::npos) << status;
  }
}

// What a header says of its size makes nobody read or hold more than there is.
TEST(AudioFile, SizesOfHeadersAreNotBelieved) {
  const ScratchDirectory folder;
  WriteSound(folder / "a.wav", std::vector<float>(1000, 0.25F));
  std::string whole;
  {
    std::ifstream in(folder / "a.wav", std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (size_t at = 4; at < std::min<size_t>(whole.size(), 60); ++at) {
    std::string changed = whole;
    changed.replace(at, 1, "\xff");
    std::ofstream(folder / "b.wav", std::ios::binary) << changed;
    const uint64_t began = WorkCount::now();
    const auto sound = AudioFile::Open(folder / "b.wav");
    if (sound.ok()) {
      std::vector<float> samples;
      while (!(*sound)->ended()) {
        if (!(*sound)->Read(1 << 20, &samples).ok()) break;
      }
      EXPECT_LE(samples.size(), 16'000'000u) << at;
    }
    EXPECT_LE(WorkCount::now() - began, uint64_t{4} << 20) << at;
  }
}

TEST(AudioFile, ASignalEndsWhatTakesLong) {
  const ScratchDirectory folder;
  WriteSound(folder / "a.wav", std::vector<float>(100'000, 0.25F));
  const StopSignal handled;
  const auto sound = AudioFile::Open(folder / "a.wav");
  ASSERT_TRUE(sound.ok());
  StopSignal::Receive(SIGUSR1);
  std::vector<float> samples;
  EXPECT_EQ((*sound)->Read(1000, &samples), absl::OkStatus());
  StopPatience::seconds = 0;
  EXPECT_EQ((*sound)->Read(90'000, &samples), absl::CancelledError("stopped by SIGUSR1"));
  EXPECT_TRUE(absl::IsCancelled(AudioFile::Open(folder / "a.wav").status()));
  StopPatience::seconds = 0.7;
}

}  // namespace
}  // namespace spillway
