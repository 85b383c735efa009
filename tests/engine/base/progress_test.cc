#include "engine/base/progress.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/terminal.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ProgressParts AStep() {
  return {"step",
          133,
          1200,
          {{"loss 7.5012", Importance::kMost},
           {"lr 4.9e-5", Importance::kMinor},
           {"norm 1.23", Importance::kLeast},
           {"epoch 1.37/3", Importance::kLess},
           {"1.4k tok/s", Importance::kMore}},
          "2m10s left"};
}

TEST(ProgressLine, FitsEveryWidth) {
  for (int columns = 0; columns <= 220; ++columns) {
    const std::string line = ProgressLine(AStep(), columns);
    EXPECT_LT(ColumnsOf(line), std::max(1, columns)) << line;
  }
}

TEST(ProgressLine, TheBarShrinksThenPartsGo) {
  EXPECT_EQ(ProgressLine(AStep(), 200),
            "step 133/1200 [###...........................]  loss 7.5012  lr 4.9e-5  norm 1.23  "
            "epoch 1.37/3  1.4k tok/s  2m10s left");
  EXPECT_EQ(ProgressLine(AStep(), 100),
            "step 133/1200 [#.........]  loss 7.5012  lr 4.9e-5  norm 1.23  epoch 1.37/3  1.4k "
            "tok/s  2m10s left");
  // Without norm and epoch.
  EXPECT_EQ(ProgressLine(AStep(), 80),
            "step 133/1200 [#..............]  loss 7.5012  lr 4.9e-5  1.4k tok/s  2m10s left");
  EXPECT_EQ(ProgressLine(AStep(), 60),
            "step 133/1200 [......]  loss 7.5012  1.4k tok/s  2m10s left");
  EXPECT_EQ(ProgressLine(AStep(), 55), "step 133/1200  loss 7.5012  1.4k tok/s  2m10s left");
  EXPECT_EQ(ProgressLine(AStep(), 40), "step 133/1200  loss 7.5012  2m10s left");
  EXPECT_EQ(ProgressLine(AStep(), 30), "step 133/1200  loss 7.5012");
  EXPECT_EQ(ProgressLine(AStep(), 20), "step 133/1200");
  EXPECT_EQ(ProgressLine(AStep(), 8), "step 13");
  EXPECT_EQ(ProgressLine(AStep(), 1), "");
}

TEST(ProgressLine, CountsCharactersAndNotBytes) {
  ProgressParts parts = {"\xe6\x97\xa5\xe6\x9c\xac.txt", 1, 2, {}, ""};
  EXPECT_EQ(ProgressLine(parts, 24), "\xe6\x97\xa5\xe6\x9c\xac.txt 1/2 [####....]");
}

TEST(ProgressLine, ABarIsFullAtItsEndAndNeverFuller) {
  EXPECT_THAT(ProgressLine({"x", 0, 0, {}, ""}, 80), HasSubstr("[" + std::string(30, '#') + "]"));
  EXPECT_THAT(ProgressLine({"x", 7, 5, {}, ""}, 80), HasSubstr("[" + std::string(30, '#') + "]"));
  EXPECT_THAT(ProgressLine({"x", 0, 5, {}, ""}, 80), HasSubstr("[" + std::string(30, '.') + "]"));
}

TEST(ProgressLine, ALogFileHasEveryPartAndNoBar) {
  EXPECT_EQ(ProgressText(AStep()),
            "step 133/1200  loss 7.5012  lr 4.9e-5  norm 1.23  epoch 1.37/3  1.4k tok/s  2m10s "
            "left");
}

TEST(ProgressLine, RatesOfAnySize) {
  const std::pair<double, const char*> rates[] = {
      {0, "0.00"},    {0.424, "0.42"}, {1, "1.0"},     {9.94, "9.9"},  {9.96, "10"},
      {999.4, "999"}, {999.6, "1.0k"}, {1449, "1.4k"}, {14490, "14k"}, {2.5e6, "2.5M"}};
  for (const auto& [rate, text] : rates) EXPECT_EQ(FormatRate(rate), text);
  EXPECT_EQ(SecondsText(0.9541), "0.954 s");
  EXPECT_EQ(SecondsText(200), "3m20s");
}

// A screen that notes what it is shown, with a clock that only a test moves.
class ProgressTest : public testing::Test {
 protected:
  ProgressScreen Screen(bool terminal) {
    ProgressScreen screen;
    screen.now = [this] { return now_; };
    screen.append = [this](const std::string& line) { lines_.push_back(line); };
    if (!terminal) return screen;
    screen.columns = [this] { return columns_; };
    screen.draw = [this](const std::string& line) { lines_.push_back(line); };
    screen.keep = [this] { ++kept_; };
    return screen;
  }

  double now_ = 1000;
  int columns_ = 80, kept_ = 0;
  std::vector<std::string> lines_;
};

TEST_F(ProgressTest, ATerminalIsDrawnAtMostTenTimesASecond) {
  {
    Progress progress("step", 100'000, std::nullopt, Screen(true));
    for (int step = 1; step < 100'000; ++step) {  // 10 s of a step each 0.1 ms
      now_ += 1e-4;
      progress.Update(step);
    }
    EXPECT_LE(lines_.size(), 100u);
    EXPECT_GE(lines_.size(), 90u);
    // However soon it comes, the end is shown.
    const size_t before = lines_.size();
    progress.Update(100'000);
    EXPECT_EQ(lines_.size(), before + 1);
    EXPECT_THAT(lines_.back(), HasSubstr("took 10s"));
    EXPECT_EQ(kept_, 0);
  }
  EXPECT_EQ(kept_, 1);
}

TEST_F(ProgressTest, ATerminalThatChangesIsAskedAtEachDraw) {
  Progress progress("step", 100, std::nullopt, Screen(true));
  for (const int columns : {200, 40, 12, 80}) {
    columns_ = columns;
    now_ += 1;
    progress.Update(static_cast<int64_t>(now_) % 100);
    EXPECT_LT(ColumnsOf(lines_.back()), columns);
  }
  EXPECT_EQ(lines_.size(), 4u);
}

TEST_F(ProgressTest, NoTimeLeftBeforeTwoPointsInTimeAreKnown) {
  Progress progress("evaluating", 143, now_ - 30, Screen(false));
  progress.Update(56);
  now_ += 6;  // and 28 of them
  progress.Update(84);
  now_ += 8;
  progress.Update(84);  // slower than it was
  now_ += 6;
  progress.Update(143);
  EXPECT_THAT(lines_, ElementsAre("evaluating 56/143", "evaluating 84/143  13s left",
                                  "evaluating 84/143  30s left", "evaluating 143/143  took 50s"));
}

TEST_F(ProgressTest, ALogFileHasALineNowAndThen) {
  Progress progress("step", 10'000, std::nullopt, Screen(false));
  for (int step = 1; step <= 10'000; ++step) {
    now_ += 1;
    progress.Update(step, {{absl::StrCat("loss ", step)}});
  }
  // Each 5 s at first, each minute later.
  EXPECT_GT(lines_.size(), 160u);
  EXPECT_LT(lines_.size(), 240u);
  EXPECT_EQ(lines_[1], "step 6/10000  loss 6  2h46m left");
  EXPECT_EQ(lines_.back(), "step 10000/10000  loss 10000  took 2h46m");
  for (const std::string& line : lines_) EXPECT_THAT(line, Not(HasSubstr("[")));
}

TEST_F(ProgressTest, WhatWasNeverShownLeavesNothing) {
  { Progress progress("step", 3, std::nullopt, Screen(true)); }
  EXPECT_EQ(kept_, 0);
}

}  // namespace
}  // namespace spillway
