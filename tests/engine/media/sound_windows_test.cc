#include "engine/media/sound_windows.h"

#include "gtest/gtest.h"
#include "tests/engine/data/sound_testing.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

constexpr int64_t kSecond = kSpeechRate;

TEST(SoundWindows, AShortSoundIsOne) {
  const ScratchDirectory folder;
  for (const int64_t count : {int64_t{1}, kSecond, 2 * kSecond}) {
    WriteSound(folder / "a.wav", Tone(400, count));
    const auto windows = CutSound(folder / "a.wav", 2 * kSecond);
    ASSERT_TRUE(windows.ok()) << windows.status();
    ASSERT_EQ(windows->size(), 1);
    EXPECT_EQ(windows->front().first, 0);
    EXPECT_EQ(windows->front().count, count);
  }
}

TEST(SoundWindows, ALongOneIsCutWhereItIsQuiet) {
  const ScratchDirectory folder;
  std::vector<float> sound = Tone(400, 5 * kSecond);
  // Silent for a fifth of a second before the end of what two seconds allow.
  const int64_t hush = 2 * kSecond - kSecond / 4;
  std::fill_n(sound.begin() + hush - kSecond / 20, kSecond / 5, 0.0F);
  WriteSound(folder / "b.wav", sound);
  const auto windows = CutSound(folder / "b.wav", 2 * kSecond);
  ASSERT_TRUE(windows.ok()) << windows.status();
  ASSERT_GE(windows->size(), 3);
  int64_t next = 0;
  for (const SoundWindow& window : *windows) {
    EXPECT_EQ(window.first, next);
    EXPECT_LE(window.count, 2 * kSecond);
    next += window.count;
  }
  EXPECT_EQ(next, 5 * kSecond);
  EXPECT_EQ(sound[windows->front().count], 0.0F);
  EXPECT_NEAR(static_cast<double>(windows->front().count), static_cast<double>(hush), kSecond / 8);
}

TEST(SoundWindows, ReadingThemInAnyOrderGivesTheSame) {
  const ScratchDirectory folder;
  WriteSound(folder / "c.flac", Tone(700, 7 * kSecond, 44100),
             {44100, 1, SF_FORMAT_FLAC | SF_FORMAT_PCM_16});
  const auto windows = CutSound(folder / "c.flac", kSecond);
  ASSERT_TRUE(windows.ok()) << windows.status();
  const LogMel mel(8);
  SoundReader in_order;
  std::vector<std::vector<float>> frames;
  for (const SoundWindow& window : *windows) {
    frames.push_back(*in_order.Frames(window, mel, 100));
    EXPECT_EQ(*SoundReader().Frames(window, mel, 100), frames.back());
  }
  EXPECT_EQ(*in_order.Frames(windows->front(), mel, 100), frames.front());
  EXPECT_NE(frames[0], frames.back());
}

TEST(SoundWindows, AnEmptyFileIsNamed) {
  const ScratchDirectory folder;
  WriteSound(folder / "empty.wav", {});
  const auto windows = CutSound(folder / "empty.wav", kSecond);
  EXPECT_TRUE(absl::IsInvalidArgument(windows.status()));
  EXPECT_NE(windows.status().message().find("empty.wav: there is no sound in it"),
            std::string::npos);
}

}  // namespace
}  // namespace spillway
