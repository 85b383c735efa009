#include "io/base/log.h"

#include <string>

#include "gtest/gtest.h"

namespace spillway {
namespace {

// What `body` writes to standard error.
template <typename Body>
std::string Logged(Body body) {
  testing::internal::CaptureStderr();
  body();
  SetLogLevel(LogLevel::kInfo);
  SetLogPrefix("");
  return testing::internal::GetCapturedStderr();
}

TEST(Log, NamesTheLevelExceptOfPlainInformation) {
  EXPECT_EQ(Logged([] { LogInfo("step 3"); }), "step 3\n");
  EXPECT_EQ(Logged([] { LogWarning("slow"); }), "spillway: warning: slow\n");
  EXPECT_EQ(Logged([] { LogError("broken"); }), "spillway: error: broken\n");
}

TEST(Log, DropsWhatIsBelowTheLevel) {
  EXPECT_EQ(Logged([] {
              SetLogLevel(LogLevel::kError);
              LogInfo("a");
              LogWarning("b");
              LogError("c");
            }),
            "spillway: error: c\n");
}

TEST(Log, PutsThePrefixFirst) {
  EXPECT_EQ(Logged([] {
              SetLogPrefix("rank 2: ");
              LogWarning("slow");
            }),
            "rank 2: spillway: warning: slow\n");
}

TEST(Log, BracesAreText) {
  EXPECT_EQ(Logged([] { LogInfo("{} %s {0:x}"); }), "{} %s {0:x}\n");
}

TEST(Log, WhatCommandsATerminalIsNotWritten) {
  EXPECT_EQ(Logged([] { LogError("row 1: \x1b[2J\r\x7f\tof\ntwo lines, \xc3\xa4"); }),
            "spillway: error: row 1: ?[2J??\tof\ntwo lines, \xc3\xa4\n");
}

TEST(Log, NothingGoesToStandardOutput) {
  testing::internal::CaptureStdout();
  Logged([] { LogError("broken"); });
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace spillway
