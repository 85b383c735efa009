#include "engine/data/speech_samples.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "engine/base/stop_signal.h"
#include "engine/data/speech_reader.h"
#include "gtest/gtest.h"
#include "tests/engine/data/sound_testing.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

constexpr int64_t kFrames = 100;

class SpeechSamplesTest : public testing::Test {
 protected:
  SpeechSamplesTest() {
    for (int i = 0; i < 4; ++i) {
      WriteSound(folder_ / absl::StrCat(i, ".wav"), Tone(200 + 100 * i, 8000));
    }
    options_.tokenizer = tokenizer_.get();
    options_.keys = {"audio", "text", ""};
    options_.max_seconds = 1;
    options_.max_target_length = 12;
    options_.vocabulary = 300;
    options_.end_token = 257;
    options_.scratch_directory = folder_.path();
  }

  absl::StatusOr<std::unique_ptr<SpeechSamples>> Read(const std::string& rows) {
    const std::string path = folder_ / "data.jsonl";
    std::ofstream(path) << rows;
    return SpeechSamples::Read({path}, options_);
  }
  std::string Error(const std::string& rows) {
    const auto samples = Read(rows);
    EXPECT_TRUE(absl::IsInvalidArgument(samples.status()) || absl::IsNotFound(samples.status()))
        << samples.status();
    return std::string(samples.status().message());
  }

  const ScratchDirectory folder_;
  const std::unique_ptr<Tokenizer> tokenizer_ = NewByteTokenizer();
  SpeechSamplesOptions options_;
};

TEST_F(SpeechSamplesTest, RowsAreSoundsBesideTheFileAndTokensThatEnd) {
  const auto samples = Read("{\"audio\": \"0.wav\", \"text\": \"ab\"}\n{\"audio\": \"" +
                            (folder_ / "1.wav") + "\", \"text\": \"a text that is too long\"}\n");
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ((*samples)->size(), 2);
  EXPECT_EQ((*samples)->Get(0)->path, folder_ / "0.wav");
  EXPECT_EQ((*samples)->Get(0)->target, (std::vector<int64_t>{'a', 'b', 257}));
  EXPECT_EQ((*samples)->Get(1)->path, folder_ / "1.wav");
  EXPECT_EQ((*samples)->Get(1)->target.size(), 12);
  EXPECT_EQ((*samples)->Get(1)->target.back(), 257);
  EXPECT_EQ((*samples)->longest_target(), 12);
  EXPECT_DOUBLE_EQ((*samples)->longest_seconds(), 0.5);
}

TEST_F(SpeechSamplesTest, BadRowsAreNamed) {
  EXPECT_NE(
      Error("{\"audio\": \"0.wav\", \"text\": \"a\"}\n{\"audio\": \"9.wav\", \"text\": \"a\"}")
          .find("data.jsonl:2: "),
      std::string::npos);
  EXPECT_NE(Error("{\"audio\": \"data.jsonl\", \"text\": \"a\"}").find("no sound that can be read"),
            std::string::npos);
  EXPECT_NE(Error("{\"audio\": \"0.wav\", \"text\": \" \"}").find("\"text\" is empty"),
            std::string::npos);
  EXPECT_NE(Error("{\"file\": \"0.wav\", \"text\": \"a\"}").find("it has no \"audio\""),
            std::string::npos);
}

TEST_F(SpeechSamplesTest, SoundsThatAreTooLongAreLeftOut) {
  WriteSound(folder_ / "long.wav", Tone(300, 17000));
  const auto samples =
      Read("{\"audio\": \"long.wav\", \"text\": \"b\"}\n{\"audio\": \"2.wav\", \"text\": \"b\"}\n");
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ((*samples)->size(), 1);
  EXPECT_EQ((*samples)->Get(0)->path, folder_ / "2.wav");
  EXPECT_NE(Error("{\"audio\": \"long.wav\", \"text\": \"b\"}").find("all sounds are longer than"),
            std::string::npos);
}

TEST_F(SpeechSamplesTest, TheFingerprintKnowsTheTextsAndTheSoundsLengths) {
  const std::string row = "{\"audio\": \"0.wav\", \"text\": \"ab\"}";
  const std::string before = (*Read(row))->fingerprint();
  EXPECT_EQ((*Read(row))->fingerprint(), before);
  EXPECT_NE((*Read("{\"audio\": \"0.wav\", \"text\": \"ac\"}"))->fingerprint(), before);
  WriteSound(folder_ / "0.wav", Tone(200, 9000));
  EXPECT_NE((*Read(row))->fingerprint(), before);
}

TEST_F(SpeechSamplesTest, WhatIsMadeAheadIsWhatIsMadeWhenAsked) {
  std::string rows;
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(&rows, "{\"audio\": \"", i, ".wav\", \"text\": \"a\"}\n");
  }
  const auto samples = *Read(rows);
  std::vector<std::vector<float>> expected;
  SpeechReader one(samples.get(), 8, kFrames);
  for (int64_t i = 0; i < 4; ++i) expected.push_back(*one.Get(i));
  EXPECT_NE(expected[0], expected[1]);
  SpeechReader ahead(samples.get(), 8, kFrames);
  for (int turn = 0; turn < 20; ++turn) {
    ahead.Prepare({0, 1, 2, 3});
    ahead.Prepare({3, 1});  // the others are not wanted any more
    EXPECT_EQ(*ahead.Get(1), expected[1]);
    EXPECT_EQ(*ahead.Get(2), expected[2]);
    EXPECT_EQ(*ahead.Get(3), expected[3]);
  }
  ahead.Prepare({0, 1, 2, 3});  // and is ended while it makes them
}

TEST_F(SpeechSamplesTest, ASoundThatIsGoneIsNamedWhenItIsRead) {
  const auto samples = *Read("{\"audio\": \"3.wav\", \"text\": \"a\"}");
  std::filesystem::remove(folder_ / "3.wav");
  SpeechReader reader(samples.get(), 8, kFrames);
  reader.Prepare({0});
  const auto frames = reader.Get(0);
  EXPECT_TRUE(absl::IsDataLoss(frames.status())) << frames.status();
  EXPECT_NE(frames.status().message().find("3.wav"), std::string::npos);
}

TEST_F(SpeechSamplesTest, ASignalEndsTheReadingOfSounds) {
  const StopSignal signals;
  StopSignal::Receive(SIGTERM);
  EXPECT_TRUE(absl::IsCancelled(Read("{\"audio\": \"0.wav\", \"text\": \"ab\"}\n").status()));
}

TEST_F(SpeechSamplesTest, SoundsThatChangeAreNamed) {
  const auto samples = Read("{\"audio\": \"0.wav\", \"text\": \"ab\"}\n");
  ASSERT_TRUE(samples.ok()) << samples.status();
  SpeechReader reader(samples->get(), 80, kFrames);
  ASSERT_TRUE(reader.Get(0).ok());
  const auto expect = [&](const std::string& how) {
    const auto frames = reader.Get(0);
    EXPECT_TRUE(absl::IsDataLoss(frames.status())) << frames.status();
    for (const std::string& part : {std::string("data.jsonl:1"), folder_ / "0.wav", how}) {
      EXPECT_NE(frames.status().message().find(part), std::string::npos) << frames.status();
    }
  };
  const auto time = std::filesystem::last_write_time(folder_ / "0.wav");
  WriteSound(folder_ / "0.wav", Tone(300, 8000));
  std::filesystem::last_write_time(folder_ / "0.wav", time + std::chrono::seconds(2));
  expect("it was written to");
  WriteSound(folder_ / "0.wav", Tone(300, 9000));
  std::filesystem::last_write_time(folder_ / "0.wav", time);
  expect("bytes and had");
  // On the thread that reads ahead, too.
  reader.Prepare(std::vector<int64_t>{0});
  expect("bytes and had");
  WriteSound(folder_ / "0.wav", Tone(200, 8000));
  std::filesystem::last_write_time(folder_ / "0.wav", time);
  EXPECT_TRUE(reader.Get(0).ok());
}

}  // namespace
}  // namespace spillway
