#include "io/base/log.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
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
  EXPECT_EQ(Logged([] { LogError("row 1: \x1b[2J\r\x7f\tof\n  two lines, \xc3\xa4"); }),
            "spillway: error: row 1: \\x1b[2J\\x0d\\x7f\tof\n  two lines, \xc3\xa4\n");
  // A name that would begin a line of ours.
  EXPECT_EQ(Logged([] { LogWarning("/a\nspillway: error: b\xc2\x9b\xe2\x80\xae is there"); }),
            "spillway: warning: /a\\nspillway: error: b\\u009b\\u202e is there\n");
}

// Standard error as a terminal, until it is destroyed.
class OnTerminal {
 public:
  explicit OnTerminal(uint16_t columns) : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_TRUE(grantpt(master_) == 0 && unlockpt(master_) == 0);
    const int terminal = open(ptsname(master_), O_RDWR | O_NOCTTY);
    termios mode = {};
    tcgetattr(terminal, &mode);
    mode.c_oflag &= ~OPOST;  // what is written comes as it is
    tcsetattr(terminal, TCSANOW, &mode);
    const winsize size = {.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(terminal, TIOCSWINSZ, &size);
    stderr_ = dup(STDERR_FILENO);
    dup2(terminal, STDERR_FILENO);
    close(terminal);
    setenv("TERM", "xterm", 1);
    reader_ = std::thread([this] {
      char buffer[4096];
      ssize_t size;
      while ((size = read(master_, buffer, sizeof(buffer))) > 0) seen_.append(buffer, size);
    });
  }
  ~OnTerminal() { Seen(); }

  // All that was written; standard error is what it was.
  std::string Seen() {
    if (reader_.joinable()) {
      dup2(stderr_, STDERR_FILENO);  // and the terminal's other side reads its end
      close(stderr_);
      reader_.join();
      close(master_);
      SetLogPrefix("");
    }
    return seen_;
  }

 private:
  const int master_;
  int stderr_ = -1;
  std::thread reader_;
  std::string seen_;
};

TEST(Log, LinesAppearAboveWhatStands) {
  setenv("NO_COLOR", "1", 1);
  OnTerminal terminal(80);
  LogInfo("before");
  DrawStandingLine("step 1/9\n\x1b[2J");  // which commands no terminal
  LogWarning("slow");
  DrawStandingLine("step 2/9");
  KeepStandingLine();
  KeepStandingLine();  // of nothing
  LogInfo("after");
  EXPECT_EQ(terminal.Seen(),
            "before\n"
            "\rstep 1/9 \\x1b\x1b[K"
            "\r\x1b[Kspillway: warning: slow\nstep 1/9 \\x1b"
            "\rstep 2/9\x1b[K\n"
            "after\n");
  unsetenv("NO_COLOR");
}

TEST(Log, AnotherRanksLineGoesWhereTheFirstOnesStands) {
  setenv("NO_COLOR", "1", 1);
  OnTerminal terminal(80);
  SetLogPrefix("rank 2: ");
  ShareTerminal(true);
  LogWarning("slow");
  ShareTerminal(false);
  EXPECT_EQ(terminal.Seen(), "\r\x1b[Krank 2: spillway: warning: slow\n");
  unsetenv("NO_COLOR");
}

TEST(Log, InformationIsFoldedAndColouredAndErrorsStayWhole) {
  unsetenv("NO_COLOR");
  OnTerminal terminal(29);
  LogInfo("plan: 3M\n  traffic    1 GiB read and 2 GiB written");
  LogError("no such file: run spillway clean --output run");
  EXPECT_EQ(terminal.Seen(),
            "plan: 3M\n\x1b[2m  traffic    \x1b[0m1 GiB read and\n             2 GiB written\n"
            "\x1b[31mspillway: error: \x1b[0mno such file: run spillway clean --output run\n");
}

TEST(Log, LinesOfSeveralThreadsAreWholeWhileALineStands) {
  setenv("NO_COLOR", "1", 1);
  OnTerminal terminal(80);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) LogInfo("a line of a thread");
    });
  }
  for (int i = 0; i < 200; ++i) DrawStandingLine("step 5/9");
  for (std::thread& thread : threads) thread.join();
  KeepStandingLine();
  std::string text = terminal.Seen();
  text = absl::StrReplaceAll(text, {{"\r\x1b[K", "\r"}, {"\x1b[K", ""}});
  int lines = 0;
  for (const absl::string_view row : absl::StrSplit(text, '\n')) {
    // Of each row what came last is what is seen.
    const absl::string_view shown = row.substr(row.rfind('\r') + 1);
    lines += shown == "a line of a thread";
    EXPECT_TRUE(shown == "a line of a thread" || shown == "step 5/9" || shown.empty()) << shown;
  }
  EXPECT_EQ(lines, 600);
  unsetenv("NO_COLOR");
}

TEST(Log, ResultsAreLoggedWhereInformationIsNot) {
  EXPECT_EQ(Logged([] {
              SetLogLevel(LogLevel::kResult);
              LogInfo("a");
              LogResult("b");
              LogWarning("c");
              SetLogLevel(LogLevel::kWarning);
              LogResult("d");
            }),
            "b\nspillway: warning: c\n");
}

TEST(Log, NothingGoesToStandardOutput) {
  testing::internal::CaptureStdout();
  Logged([] { LogError("broken"); });
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace spillway
