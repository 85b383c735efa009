#include "engine/machine/process_setup.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace spillway {
namespace {

// Iterations of a loop with a pause: some tenths of a millisecond.
constexpr char kSpinCount[] = "10000";

void IgnoreWithoutHandler(int signal) {
  struct sigaction now = {};
  if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
    std::signal(signal, SIG_IGN);
  }
}

}  // namespace

std::string ProgramPath() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  if (size > 0) return std::string(path, size);
  // Without /proc: the path that the program was started by.
  const auto* const started = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  return started != nullptr && realpath(started, path) != nullptr ? path : "";
}

void OpenStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // open() returns the lowest free descriptor, which is this one.
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) return;
  }
}

void FailBeyondFileSizeLimit() { IgnoreWithoutHandler(SIGXFSZ); }

void FailWritesToNobody() {
  IgnoreWithoutHandler(SIGPIPE);
  IgnoreWithoutHandler(SIGTTOU);
}

bool SetOpenMpWaits() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return false;
  setenv("OMP_WAIT_POLICY", "PASSIVE", 1);
  setenv("GOMP_SPINCOUNT", kSpinCount, /*overwrite=*/0);
  return true;
}

void SetMklRepeats() {
  setenv("MKL_CBWR", "AUTO", /*overwrite=*/0);
  setenv("MKL_DYNAMIC", "FALSE", /*overwrite=*/0);
}

void SleepingOpenMpThreads(char** argv) {
  SetMklRepeats();
  if (!SetOpenMpWaits()) return;
  // Uses its own path: started as /proc/self/exe, the program would be called "exe" in ps and
  // pkill.
  const std::string path = ProgramPath();
  if (!path.empty()) execv(path.c_str(), argv);
  // Reached if /proc is missing, or the file has gone. Slower, but correct.
}

}  // namespace spillway
