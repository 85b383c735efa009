#include "engine/data/audio_file.h"

#include <fstream>
#include <limits>

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

}  // namespace
}  // namespace spillway
