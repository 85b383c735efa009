#include "engine/data/sample_rows.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "engine/base/stop_signal.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;
using Parts = std::vector<SampleRows::Part>;

class SampleRowsTest : public testing::Test {
 protected:
  std::unique_ptr<TokenSource> Source(const std::string& text,
                                      const std::string& name = "data.jsonl") {
    WriteFile(scratch_ / name, text);
    auto source = TokenSource::Open({{scratch_ / name}, tokenizer_.get(), scratch_.path(), 256, 0});
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }
  // A line of so many bytes, which takes so many positions: a newline ends it.
  static std::string Line(int64_t bytes) {
    return absl::StrCat("{\"text\": \"", std::string(static_cast<size_t>(bytes), 'x'), "\"}\n");
  }
  static std::string Pair(int64_t prompt, int64_t completion) {
    return absl::StrCat("{\"prompt\": \"", std::string(static_cast<size_t>(prompt), 'p'),
                        "\", \"completion\": \"", std::string(static_cast<size_t>(completion), 'c'),
                        "\"}\n");
  }
  absl::StatusOr<std::unique_ptr<SampleRows>> Lay(const TokenSource& source, int64_t positions,
                                                  bool pack) {
    return SampleRows::Lay(source, {positions, pack, scratch_.path()});
  }
  static std::vector<Parts> All(const SampleRows& rows) {
    std::vector<Parts> all;
    for (int64_t row = 0; row < rows.size(); ++row) all.push_back(*rows.Read(row));
    return all;
  }

  ScratchDirectory scratch_;
  std::unique_ptr<Tokenizer> tokenizer_ = NewByteTokenizer();
};

TEST_F(SampleRowsTest, ARowASampleInTheirOrder) {
  const auto source = Source(Line(3) + "\n" + Pair(2, 2) + Line(1));
  const auto rows = *Lay(*source, 8, false);
  EXPECT_EQ(All(*rows), (std::vector<Parts>{{{0, 4}}, {{4, 5}}, {{9, 2}}}));
  EXPECT_EQ(rows->samples(), 3);
  EXPECT_EQ(rows->positions(), 8);
  EXPECT_EQ(rows->longest(), 4);
  // Nothing is left in the folder but the data.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_.path()), {}), 1);
}

TEST_F(SampleRowsTest, FilesBeginSamplesOfTheirOwn) {
  WriteFile(scratch_ / "a.jsonl", Line(1));
  WriteFile(scratch_ / "b.jsonl", Line(2));
  const auto source = *TokenSource::Open(
      {{scratch_ / "a.jsonl", scratch_ / "b.jsonl"}, tokenizer_.get(), scratch_.path(), 256, 0});
  EXPECT_EQ(All(**Lay(*source, 8, false)), (std::vector<Parts>{{{0, 2}}, {{2, 3}}}));
}

TEST_F(SampleRowsTest, EachGoesWhereItFitsBest) {
  // Room 10: 6 | 7 | 3 fills the second, 4 the first; 9 and 2 remain.
  const auto source = Source(Line(6) + Line(7) + Line(3) + Line(4) + Line(9) + Line(2));
  const auto rows = *Lay(*source, 10, true);
  EXPECT_EQ(All(*rows),
            (std::vector<Parts>{{{7, 8}, {15, 4}}, {{0, 7}, {19, 5}}, {{24, 10}}, {{34, 3}}}));
  EXPECT_EQ(rows->longest(), 10);
}

TEST_F(SampleRowsTest, EverySampleOnceAndNoRowTooLong) {
  std::mt19937 random(7);
  std::string text;
  for (int i = 0; i < 3000; ++i) text += Line(1 + static_cast<int64_t>(random() % 60));
  const auto source = Source(text);
  const auto rows = *Lay(*source, 50, true);
  std::vector<int64_t> firsts;
  for (const Parts& row : All(*rows)) {
    int64_t positions = 0;
    for (const auto& part : row) {
      positions += part.positions();
      firsts.push_back(part.first);
    }
    EXPECT_LE(positions, 50);
    EXPECT_GE(row.size(), 1u);
  }
  EXPECT_EQ(firsts.size(), 3000u);
  std::sort(firsts.begin(), firsts.end());
  EXPECT_EQ(std::unique(firsts.begin(), firsts.end()), firsts.end());
  EXPECT_GT(rows->positions(), rows->size() * 50 * 95 / 100) << "rows are all but full";
  EXPECT_EQ(rows->fingerprint(), (*Lay(*source, 50, true))->fingerprint());
  EXPECT_NE(rows->fingerprint(), (*Lay(*source, 51, true))->fingerprint());
  EXPECT_NE(rows->fingerprint(), (*Lay(*source, 50, false))->fingerprint());
}

TEST_F(SampleRowsTest, WhatIsTooLongIsCutAndWhatHasNoLabelLeftOut) {
  // The second's completion begins behind the end; of the third one label is left.
  const auto source = Source(Line(20) + Pair(9, 5) + Pair(8, 5) + Line(4));
  for (const bool pack : {false, true}) {
    testing::internal::CaptureStderr();
    const auto rows = *Lay(*source, 8, pack);
    const std::string warned = testing::internal::GetCapturedStderr();
    EXPECT_EQ(All(*rows), (std::vector<Parts>{{{0, 9}}, {{36, 9}}, {{50, 5}}}));
    EXPECT_THAT(warned, testing::HasSubstr(": 2 of 3 samples are longer than --seq-len 8"));
    EXPECT_THAT(warned, testing::HasSubstr(": 1 of 4 samples are left out"));
  }
  const auto refused = Lay(*Source(Pair(9, 5)), 8, true);
  ExpectError(refused.status(), StatusCode::kInvalidArgument,
              {"data.jsonl", "no sample has a label", "--seq-len 8"});
}

TEST_F(SampleRowsTest, OnlyLinesAreSamples) {
  const auto lines = Source(Line(3)), plain = Source("text", "plain.txt");
  for (const SampleLayout layout :
       {SampleLayout::kWindows, SampleLayout::kPadded, SampleLayout::kPacked}) {
    EXPECT_TRUE(CheckSampleLayout(layout, *lines).ok());
  }
  EXPECT_TRUE(CheckSampleLayout(SampleLayout::kWindows, *plain).ok());
  ExpectError(CheckSampleLayout(SampleLayout::kPacked, *plain), StatusCode::kInvalidArgument,
              {"plain.txt", "--packing", ".jsonl", "--samples windows"});
  ExpectError(CheckSampleLayout(SampleLayout::kPadded, *plain), StatusCode::kInvalidArgument,
              {"plain.txt", "--samples padded"});
}

TEST_F(SampleRowsTest, ASignalEndsTheLaying) {
  const auto source = Source(Line(3));
  const StopSignal signals;
  StopSignal::Receive(SIGTERM);
  EXPECT_TRUE(absl::IsCancelled(Lay(*source, 8, true).status()));
}

}  // namespace
}  // namespace spillway
