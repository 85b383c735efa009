// Ranks that are shell scripts; the process that starts them is a child of the test.
#include "engine/ranks/spawn_ranks.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "io/base/clock.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::Not;

// Long enough for a busy machine; nothing waits for its end but what is broken.
constexpr double kPatienceSeconds = 60;

bool WaitFor(const std::function<bool()>& holds) {
  const double end = MonotonicSeconds() + kPatienceSeconds;
  while (!holds()) {
    if (MonotonicSeconds() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// "R", "S", "T" (stopped), "Z" (has ended, and waits for its parent to look); "" where it is gone.
std::string StateOf(pid_t pid) {
  std::ifstream stat(absl::StrCat("/proc/", pid, "/stat"));
  std::string number, name, state;
  stat >> number >> name >> state;
  return state;
}

// A process that has not ended, nor waits for its parent to look.
bool Lives(pid_t pid) {
  const std::string state = StateOf(pid);
  return !state.empty() && state != "Z" && state != "X";
}

class SpawnRanksTest : public testing::Test {
 protected:
  ~SpawnRanksTest() override {
    if (parent_ > 0) {
      kill(parent_, SIGKILL);
      waitpid(parent_, nullptr, 0);
    }
  }

  SpawnOptions Options(int ranks, const std::string& script) {
    SpawnOptions options;
    options.program = "/bin/sh";
    options.arguments = {"sh", "-c", script};
    options.environment = ThisEnvironment();
    options.environment["DIR"] = scratch_.path();
    options.ranks = ranks;
    options.grace_seconds = 0.3;
    return options;
  }

  // Starts the parent of the ranks, which first does what `first` says; its stdout and stderr are
  // files.
  void Start(
      const SpawnOptions& options, const std::function<void()>& first = [] {}) {
    parent_ = fork();
    ASSERT_GE(parent_, 0);
    if (parent_ > 0) return;
    // A shell that started the tests in the background has it ignored, and no script of the ranks
    // could trap it.
    for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGTSTP}) signal(number, SIG_DFL);
    first();
    dup2(open((scratch_ / "out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDOUT_FILENO);
    dup2(open((scratch_ / "err").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    const auto code = SpawnRanks(options);
    if (!code.ok()) {
      const std::string message = absl::StrCat("refused: ", code.status().message(), "\n");
      (void)!write(STDERR_FILENO, message.data(), message.size());
    }
    _exit(code.value_or(99));
  }

  // The code with which the parent exits; -1 where a signal ended it.
  int Wait() {
    int state = 0;
    EXPECT_EQ(waitpid(parent_, &state, 0), parent_);
    parent_ = -1;
    out_ = ReadFile(scratch_ / "out");
    error_ = ReadFile(scratch_ / "err");
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
  }

  void Signal(int signal) {
    ASSERT_GT(parent_, 0);
    kill(parent_, signal);
  }

  int Run(int ranks, const std::string& script) {
    Start(Options(ranks, script));
    return Wait();
  }

  bool Exists(const std::string& name) { return access((scratch_ / name).c_str(), F_OK) == 0; }
  // Every rank has written its own of these.
  bool HaveAll(const std::string& name, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (!Exists(absl::StrCat(name, rank))) return false;
    }
    return true;
  }
  pid_t PidOf(int rank) {
    int pid = 0;
    EXPECT_TRUE(absl::SimpleAtoi(ReadFile(scratch_ / absl::StrCat("pid", rank)), &pid));
    return pid;
  }

  ScratchDirectory scratch_;
  pid_t parent_ = -1;
  std::string out_, error_;
};

// Writes its pid where the test finds it, whole.
constexpr char kSayPid[] = "echo $$ > $DIR/new$RANK; mv $DIR/new$RANK $DIR/pid$RANK; ";
constexpr char kForever[] = "while :; do sleep 0.05; done";
// A process that has ended is there for a signal until its parent has looked.
constexpr char kUntilRank1IsSeenToEnd[] =
    "until [ -e $DIR/pid1 ]; do sleep 0.01; done; "
    "while kill -0 $(cat $DIR/pid1) 2>/dev/null; do sleep 0.01; done; ";

TEST_F(SpawnRanksTest, EveryRankFindsItsPlace) {
  EXPECT_EQ(Run(3, "env > $DIR/env$RANK"), 0);
  std::set<std::string> ports, secrets;
  for (int rank = 0; rank < 3; ++rank) {
    EnvironmentMap environment;
    const std::string text = ReadFile(scratch_ / absl::StrCat("env", rank));
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      const std::pair<std::string, std::string> entry =
          absl::StrSplit(line, absl::MaxSplits('=', 1));
      environment.insert(entry);
    }
    EXPECT_EQ(environment["DIR"], scratch_.path());
    const auto launch = ReadLaunch(environment, 3);
    ASSERT_TRUE(launch.ok()) << launch.status();
    EXPECT_EQ(launch->launcher, "--ranks");
    EXPECT_EQ(launch->rank, rank);
    EXPECT_EQ(launch->world, 3);
    EXPECT_EQ(launch->local_rank, rank);
    EXPECT_EQ(launch->local_world, 3);
    EXPECT_EQ(launch->node_rank, 0);
    EXPECT_EQ(launch->master_address, "127.0.0.1");
    ports.insert(environment["MASTER_PORT"]);
    secrets.insert(launch->secret);
  }
  EXPECT_EQ(ports.size(), 1u);
  ASSERT_EQ(secrets.size(), 1u);
  EXPECT_GE(secrets.begin()->size(), 32u);
}

// Nor once rank 0 is gone: a listener of another program would be taken for it by the others.
TEST_F(SpawnRanksTest, NobodyElseCanHaveThePortMeanwhile) {
  SpawnOptions options =
      Options(2,
              "echo $MASTER_PORT $(readlink /proc/$$/fd/$SPILLWAY_MASTER_SOCKET) > $DIR/new$RANK; "
              "mv $DIR/new$RANK $DIR/port$RANK; [ $RANK = 1 ] || { echo $$ > $DIR/gone; exit 1; }; "
              "until [ -e $DIR/go ]; do sleep 0.01; done");
  options.grace_seconds = kPatienceSeconds;
  Start(options);
  ASSERT_TRUE(WaitFor([&] { return HaveAll("port", 2); }));
  ASSERT_TRUE(WaitFor([&] {
    int zero = 0;
    return absl::SimpleAtoi(ReadFile(scratch_ / "gone"), &zero) && !Lives(zero);
  }));
  const std::vector<std::string> first = absl::StrSplit(ReadFile(scratch_ / "port0"), ' ');
  ASSERT_EQ(first.size(), 2u);
  EXPECT_THAT(first[1], testing::StartsWith("socket:"));
  EXPECT_THAT(ReadFile(scratch_ / "port1"), Not(HasSubstr("socket:")));
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(first[0], &port));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const int other = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(bind(other, reinterpret_cast<sockaddr*>(&address), sizeof(address)), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  close(other);
  std::ofstream(scratch_ / "go") << "now";
  EXPECT_EQ(Wait(), 1);
}

TEST_F(SpawnRanksTest, RankZeroKeepsItsOutputAndOthersAreNamed) {
  EXPECT_EQ(Run(3, "echo result $RANK; echo complaint $RANK >&2; printf 'rank %s: mine' $RANK >&2"),
            0);
  EXPECT_EQ(out_, "result 0\n");
  EXPECT_THAT(error_, HasSubstr("complaint 0\n"));
  EXPECT_THAT(error_, Not(HasSubstr("rank 0: complaint")));
  for (const char* line : {"rank 1: result 1\n", "rank 1: complaint 1\n", "rank 1: mine\n",
                           "rank 2: complaint 2\n", "rank 2: mine\n"}) {
    EXPECT_THAT(error_, HasSubstr(line));
  }
  EXPECT_THAT(error_, Not(HasSubstr("rank 1: rank 1")));
}

TEST_F(SpawnRanksTest, LinesAreNotMixed) {
  EXPECT_EQ(Run(4,
                "[ $RANK = 0 ] && exit 0; i=0; while [ $i -lt 300 ]; do printf 'abc' >&2; "
                "printf \"defghi $RANK\\n\" >&2; i=$((i+1)); done"),
            0);
  int lines = 0;
  for (absl::string_view line : absl::StrSplit(error_, '\n', absl::SkipEmpty())) {
    ++lines;
    const absl::string_view rank = line.substr(5, 1);
    EXPECT_EQ(line, absl::StrCat("rank ", rank, ": abcdefghi ", rank));
  }
  EXPECT_EQ(lines, 900);
}

TEST_F(SpawnRanksTest, WhatARankSaysLastIsNotLost) {
  // Written, and all ranks gone, while its parent could not look.
  Start(Options(2, absl::StrCat(kSayPid,
                                "while [ ! -e $DIR/go ]; do sleep 0.01; done; i=0; "
                                "while [ $i -lt 1000 ]; do echo line $i of many >&2; "
                                "i=$((i+1)); done")));
  ASSERT_TRUE(WaitFor([&] { return HaveAll("pid", 2); }));
  const pid_t first = PidOf(0), second = PidOf(1);
  Signal(SIGSTOP);
  WriteFile(scratch_ / "go", "");
  ASSERT_TRUE(WaitFor([&] { return !Lives(first) && !Lives(second); }));
  Signal(SIGCONT);
  EXPECT_EQ(Wait(), 0);
  EXPECT_THAT(error_, HasSubstr("rank 1: line 999 of many\n"));
}

TEST_F(SpawnRanksTest, RanksStartWithTheSignalsHeldBackThatTheyWillHandle) {
  // SIGHUP, SIGINT, SIGUSR1 and SIGTERM. Not a shell, which unblocks them itself.
  SpawnOptions options = Options(1, "");
  options.program = "/bin/cat";
  options.arguments = {"cat", "/proc/self/status"};
  Start(options);
  EXPECT_EQ(Wait(), 0);
  EXPECT_THAT(out_, HasSubstr("SigBlk:\t0000000000004203\n"));
}

TEST_F(SpawnRanksTest, TheFirstFailureIsTheCode) {
  EXPECT_EQ(Run(3, "[ $RANK = 2 ] && exit 3; exit 0"), 3);
  EXPECT_EQ(
      Run(3, absl::StrCat(kSayPid, "[ $RANK = 1 ] && exit 4; ", kUntilRank1IsSeenToEnd, "exit 5")),
      4);
}

TEST_F(SpawnRanksTest, ALaterFailureThatHasACodeOfItsOwnSaysMore) {
  SpawnOptions options = Options(
      2, absl::StrCat(kSayPid, "[ $RANK = 1 ] && exit 1; ", kUntilRank1IsSeenToEnd, "exit 4"));
  options.grace_seconds = kPatienceSeconds;
  Start(options);
  EXPECT_EQ(Wait(), 4);
}

TEST_F(SpawnRanksTest, StoppedOnlyWhereAllAreStoppedOrDone) {
  EXPECT_EQ(Run(3, "exit 75"), 75);
  EXPECT_EQ(Run(3, "[ $RANK = 1 ] && exit 75; exit 0"), 75);
  EXPECT_EQ(Run(3, "[ $RANK = 1 ] && exit 4; exit 75"), 4);
}

TEST_F(SpawnRanksTest, WhatHangsAfterAFailureIsEnded) {
  // One ends at SIGTERM, the other does not.
  const double begin = MonotonicSeconds();
  EXPECT_EQ(
      Run(3, absl::StrCat("[ $RANK = 1 ] && trap '' TERM; ", kSayPid, "[ $RANK = 2 ] || ", kForever,
                          "; while [ ! -e $DIR/pid0 ] || "
                          "[ ! -e $DIR/pid1 ]; do sleep 0.01; done; exit 7")),
      7);
  EXPECT_GE(MonotonicSeconds() - begin, 0.6);
  EXPECT_THAT(error_, HasSubstr("rank 0, rank 1 still ran 0.3 s after rank 2 had failed and got "
                                "SIGTERM"));
  EXPECT_THAT(error_, HasSubstr("rank 1 still ran 0.3 s after SIGTERM and got SIGKILL"));
  EXPECT_FALSE(Lives(PidOf(0)));
  EXPECT_FALSE(Lives(PidOf(1)));
}

TEST_F(SpawnRanksTest, TheOthersMayEndByThemselves) {
  SpawnOptions options = Options(2, "[ $RANK = 1 ] && exit 6; sleep 0.5; touch $DIR/done; exit 1");
  options.grace_seconds = kPatienceSeconds;
  Start(options);
  EXPECT_EQ(Wait(), 6);
  EXPECT_TRUE(Exists("done"));
  EXPECT_EQ(error_, "");
}

TEST_F(SpawnRanksTest, ASignalThatEndsARankIsNamed) {
  EXPECT_EQ(Run(3, "[ $RANK = 1 ] && kill -KILL $$; exit 0"), 1);
  EXPECT_THAT(error_, HasSubstr("rank 1 was ended by SIGKILL"));
}

TEST_F(SpawnRanksTest, SignalsArePassedOnOnce) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    const std::string name = sigabbrev_np(signal);
    SCOPED_TRACE(name);
    SpawnOptions options = Options(
        3, absl::StrCat("trap 'echo x >> $DIR/", name, "$RANK' ", name, "; ", kSayPid,
                        "while [ ! -e $DIR/stop", name, " ]; do sleep 0.05; done; ", "exit 75"));
    options.same_signal_seconds = 3600;  // however slowly all this goes
    Start(options);
    ASSERT_TRUE(WaitFor([&] { return HaveAll("pid", 3); }));
    Signal(signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    Signal(signal);  // to the group, after the process
    ASSERT_TRUE(WaitFor([&] { return HaveAll(name, 3); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    WriteFile(scratch_ / absl::StrCat("stop", name), "");
    EXPECT_EQ(Wait(), 75);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(ReadFile(scratch_ / absl::StrCat(name, rank)), "x\n") << rank;
      std::filesystem::remove(scratch_ / absl::StrCat("pid", rank));
    }
  }
}

TEST_F(SpawnRanksTest, WhatIsIgnoredIsNotPassedOn) {
  // As nohup starts it; the ranks ignore it as well.
  Start(Options(2, absl::StrCat(kSayPid, "until [ -e $DIR/go ]; do sleep 0.05; done")),
        [] { signal(SIGHUP, SIG_IGN); });
  ASSERT_TRUE(WaitFor([&] { return HaveAll("pid", 2); }));
  Signal(SIGHUP);
  for (int rank = 0; rank < 2; ++rank) kill(PidOf(rank), SIGHUP);
  WriteFile(scratch_ / "go", "");
  EXPECT_EQ(Wait(), 0);
}

TEST_F(SpawnRanksTest, WhoInsistsIsHeard) {
  SpawnOptions options = Options(
      2, absl::StrCat("trap \"trap - TERM; touch $DIR/once$RANK\" TERM; ", kSayPid, kForever));
  options.same_signal_seconds = 0;
  Start(options);
  ASSERT_TRUE(WaitFor([&] { return HaveAll("pid", 2); }));
  Signal(SIGTERM);
  ASSERT_TRUE(WaitFor([&] { return HaveAll("once", 2); }));
  Signal(SIGTERM);
  EXPECT_EQ(Wait(), 1);
  EXPECT_THAT(error_, HasSubstr("was ended by SIGTERM"));
}

TEST_F(SpawnRanksTest, AtCtrlZAllStopAndGoOnTogether) {
  Start(Options(2, absl::StrCat(kSayPid, "until [ -e $DIR/go ]; do sleep 0.05; done")));
  ASSERT_TRUE(WaitFor([&] { return HaveAll("pid", 2); }));
  const pid_t pids[] = {PidOf(0), PidOf(1), parent_};
  Signal(SIGTSTP);
  for (const pid_t pid : pids) EXPECT_TRUE(WaitFor([&] { return StateOf(pid) == "T"; })) << pid;
  Signal(SIGCONT);
  for (const pid_t pid : pids) EXPECT_TRUE(WaitFor([&] { return StateOf(pid) != "T"; })) << pid;
  WriteFile(scratch_ / "go", "");
  EXPECT_EQ(Wait(), 0);
}

TEST_F(SpawnRanksTest, RanksDieWithTheirParent) {
  Start(Options(3, absl::StrCat("trap '' TERM INT HUP; ", kSayPid, kForever)));
  ASSERT_TRUE(WaitFor([&] { return HaveAll("pid", 3); }));
  const pid_t pids[] = {PidOf(0), PidOf(1), PidOf(2)};
  for (const pid_t pid : pids) {
    EXPECT_TRUE(Lives(pid));
    EXPECT_EQ(getpgid(pid), pid) << "a terminal's Ctrl-C would reach it twice";
  }
  Signal(SIGKILL);
  EXPECT_EQ(Wait(), -1);
  for (const pid_t pid : pids) EXPECT_TRUE(WaitFor([&] { return !Lives(pid); }));
}

TEST_F(SpawnRanksTest, AChildOfARankDoesNotHoldAnybodyUp) {
  const double begin = MonotonicSeconds();
  EXPECT_EQ(Run(2, "echo said >&2; sleep 600 & echo $! > $DIR/sleep$RANK; exit 0"), 0);
  EXPECT_LT(MonotonicSeconds() - begin, kPatienceSeconds);
  EXPECT_THAT(error_, HasSubstr("rank 1: said\n"));
  for (const char* name : {"sleep0", "sleep1"}) {
    int pid = 0;
    ASSERT_TRUE(absl::SimpleAtoi(ReadFile(scratch_ / name), &pid));
    kill(pid, SIGKILL);
  }
}

TEST_F(SpawnRanksTest, WhatCannotBeStartedIsAnError) {
  SpawnOptions options = Options(2, "");
  options.program = scratch_ / "none";
  const auto code = SpawnRanks(options);
  ExpectError(code.status(), absl::StatusCode::kNotFound, {"rank 0", options.program});
  options.ranks = 5000;
  ExpectError(SpawnRanks(options).status(), absl::StatusCode::kInvalidArgument,
              {"--ranks 5000", "1024"});
  // The signals are handled as before.
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_FALSE(sigismember(&blocked, SIGTERM));
}

TEST_F(SpawnRanksTest, ThisProgramIsStartedWithItsOwnArguments) {
  const auto options = SpawnThisProgram(4);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->ranks, 4);
  EXPECT_THAT(options->program, HasSubstr("spillway_engine_test"));
  EXPECT_THAT(options->arguments.at(0), HasSubstr("spillway_engine_test"));
  std::string line;
  for (const std::string& argument : options->arguments) line += argument + '\0';
  EXPECT_EQ(line, ReadFile("/proc/self/cmdline"));
  EXPECT_EQ(options->environment, ThisEnvironment());
}

}  // namespace
}  // namespace spillway
