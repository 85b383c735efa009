#include "engine/machine/process_setup.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file_system.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "not set" : value;
}

TEST(ProcessSetup, MklIsToldToRepeatItselfWhereTheUserSaidNothing) {
  EXPECT_EQ(InChild([]() -> std::string {
              ::unsetenv("MKL_CBWR");
              ::unsetenv("MKL_DYNAMIC");
              SetMklRepeats();
              return Variable("MKL_CBWR") + " " + Variable("MKL_DYNAMIC");
            }),
            "AUTO FALSE");
  EXPECT_EQ(InChild([]() -> std::string {
              ::setenv("MKL_CBWR", "COMPATIBLE", 1);
              ::setenv("MKL_DYNAMIC", "TRUE", 1);
              SetMklRepeats();
              return Variable("MKL_CBWR") + " " + Variable("MKL_DYNAMIC");
            }),
            "COMPATIBLE TRUE");
}

// As `ulimit -f` has it, and with what a shell leaves of signals: the default.
TEST(ProcessSetup, AFileBeyondTheLimitIsAnErrorAndNotTheEnd) {
  EXPECT_THAT(InChild([]() -> std::string {
                ::signal(SIGXFSZ, SIG_DFL);
                FailBeyondFileSizeLimit();
                const rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
                if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return "no limit";
                const absl::Status status =
                    WriteFileAtomically(testing::TempDir() + "large", std::string(5000, 'x'));
                return std::string(status.message());
              }),
              testing::HasSubstr("EFBIG"));
  EXPECT_EQ(InChild([]() -> std::string {
              ::signal(SIGXFSZ, [](int) { _exit(7); });
              FailBeyondFileSizeLimit();
              struct sigaction now = {};
              sigaction(SIGXFSZ, nullptr, &now);
              return now.sa_handler == SIG_IGN ? "taken away" : "stays";
            }),
            "stays");
}

TEST(ProcessSetup, AWriteToNobodyIsAnErrorAndNotTheEnd) {
  EXPECT_EQ(InChild([]() -> std::string {
              ::signal(SIGPIPE, SIG_DFL);
              FailWritesToNobody();
              int ends[2];
              if (::pipe(ends) != 0) return "no pipe";
              ::close(ends[0]);
              return ::write(ends[1], "x", 1) < 0 && errno == EPIPE ? "EPIPE" : "written";
            }),
            "EPIPE");
  EXPECT_EQ(InChild([]() -> std::string {
              ::signal(SIGPIPE, [](int) { _exit(7); });
              FailWritesToNobody();
              struct sigaction now = {};
              sigaction(SIGPIPE, nullptr, &now);
              return now.sa_handler == SIG_IGN ? "taken away" : "stays";
            }),
            "stays");
}

// What a daemon's parent closed is no file of the program's own.
TEST(ProcessSetup, StandardStreamsThatAreClosedAreOpened) {
  EXPECT_EQ(InChild([]() -> std::string {
              const int kept = ::open("/dev/zero", O_WRONLY);
              ::dup2(kept, STDOUT_FILENO);
              ::close(STDIN_FILENO);
              ::close(STDERR_FILENO);
              OpenStandardStreams();
              std::string targets;
              for (const char* fd : {"0", "1", "2"}) {
                char target[64];
                const std::string link = std::string("/proc/self/fd/") + fd;
                const ssize_t size = ::readlink(link.c_str(), target, sizeof(target));
                targets += size < 0 ? "closed " : std::string(target, size) + " ";
              }
              return targets;
            }),
            "/dev/null /dev/zero /dev/null ");
}

TEST(ProcessSetup, OpenMpIsToldToSleepWhereTheUserSaidNothing) {
  EXPECT_EQ(InChild([]() -> std::string {
              ::unsetenv("OMP_WAIT_POLICY");
              ::unsetenv("GOMP_SPINCOUNT");
              if (!SetOpenMpWaits()) return "nothing was changed";
              if (SetOpenMpWaits()) return "changed twice";
              return Variable("OMP_WAIT_POLICY") + " " + Variable("GOMP_SPINCOUNT");
            }),
            "PASSIVE 10000");
}

// Before all else: a program that is linked with LibTorch starts itself again for OpenMP's sake
// alone, and MKL reads its own only later.
TEST(ProcessSetup, AProgramThatNeedsNoOtherStartIsToldOfMklAsWell) {
  EXPECT_EQ(InChild([]() -> std::string {
              ::unsetenv("MKL_CBWR");
              ::setenv("OMP_WAIT_POLICY", "ACTIVE", 1);
              SleepingOpenMpThreads(nullptr);
              return Variable("MKL_CBWR") + " " + Variable("OMP_WAIT_POLICY");
            }),
            "AUTO ACTIVE");
}

}  // namespace
}  // namespace spillway
