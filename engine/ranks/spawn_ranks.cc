#include "engine/ranks/spawn_ranks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/stop_signal.h"
#include "engine/ranks/line_forwarder.h"
#include "engine/ranks/rank_log.h"
#include "engine/ranks/rank_socket.h"
#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/base/terminal.h"
#include "io/base/unique_fd.h"
#include "io/file.h"

namespace spillway {
namespace {

// Two descriptors a rank while it starts; a machine with more GPUs than this has another program.
constexpr int kMostSpawned = 1024;
constexpr int kFailedCode = 1;  // for no reason that has a code of its own
constexpr int kStoppedCode = 75;

absl::Status MakePipe(UniqueFd* read, UniqueFd* write) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe for a rank");
  *read = UniqueFd(ends[0]);
  *write = UniqueFd(ends[1]);
  return absl::OkStatus();
}

// A socket bound to this port of 127.0.0.1, to any free one where it is 0. One asked for by its
// number can be had several times, as long as nobody listens at it (SO_REUSEADDR).
absl::StatusOr<UniqueFd> BindLoopback(int port) {
  sockaddr_in loopback = {};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const RankAddress address = {
      std::string(reinterpret_cast<const char*>(&loopback), sizeof(loopback))};
  int error = 0;
  absl::StatusOr<UniqueFd> bound = BindRankSocket(address.WithPort(port), &error);
  if (!bound.ok()) return ErrnoStatus(error, "find a free port on 127.0.0.1 for --ranks");
  // Without a loopback network ranks would try to connect until --collective-timeout.
  RETURN_IF_ERROR(CheckLoopback(OwnRankAddress(bound->get())));
  return bound;
}

// Holds back the signals that are passed on, SIGTSTP and SIGCHLD for as long as it lives.
class BlockedSignals {
 public:
  BlockedSignals() {
    // What is ignored here is so in the ranks; blocked, it would come all the same.
    const std::vector<int> forwarded = StopSignal::Handled();
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : forwarded) sigaddset(&set, signal);
    sigaddset(&set, SIGTSTP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &before_);
    of_ranks_ = before_;
    for (const int signal : forwarded) sigaddset(&of_ranks_, signal);
    descriptor_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~BlockedSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

  int fd() const { return descriptor_.get(); }
  // What a rank starts with: what comes before it has a handler waits for that (StopSignal).
  const sigset_t& of_ranks() const { return of_ranks_; }
  // The next that came, 0 if none.
  int Next() const {
    signalfd_siginfo info = {};
    return read(fd(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_, of_ranks_;
  UniqueFd descriptor_;
};

// The pointers that execve wants; `strings` must outlive them.
std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

struct Child {
  pid_t pid = -1;  // -1 once it has ended
  UniqueFd output;
  LineForwarder lines;
  explicit Child(int rank) : lines(RankPrefix(rank)) {}
};

class Spawner {
 public:
  explicit Spawner(const SpawnOptions& options) : options_(options) {}
  // Nothing is left behind, whatever went wrong.
  ~Spawner() {
    Send(SIGKILL);
    for (const auto& child : children_) {
      if (child->pid > 0) waitpid(child->pid, nullptr, 0);
    }
  }

  absl::Status Start() {
    if (signals_.fd() < 0) return ErrnoStatus(errno, "make a signalfd for --ranks");
    ASSIGN_OR_RETURN(held_, BindLoopback(0));
    port_ = OwnRankAddress(held_.get()).port();
    ASSIGN_OR_RETURN(socket_, BindLoopback(port_));
    for (int rank = 0; rank < options_.ranks; ++rank) {
      RETURN_IF_ERROR(StartRank(rank));
      socket_ = UniqueFd();  // rank 0 has it
    }
    return absl::OkStatus();
  }

  int Wait() {
    // That came before any were held back.
    if (const int signal = StopSignal::received()) Forward(signal);
    while (Running() > 0) {
      WaitForSomething();
      while (const int signal = signals_.Next()) {
        if (signal == SIGTSTP) {
          Pause();
        } else if (signal != SIGCHLD) {
          Forward(signal);
        }
      }
      ForwardOutput();
      Reap();
      EndTheOthers();
    }
    // What they left in their pipes, and no more: their children may live on, with the other ends.
    while (ForwardOutput()) {
    }
    for (const auto& child : children_) Print(child->lines.Finish());
    if (failure_) return *failure_;
    return stopped_ ? kStoppedCode : 0;
  }

 private:
  std::vector<std::string> EnvironmentOf(int rank) const {
    EnvironmentMap environment = options_.environment;
    const std::string number = absl::StrCat(rank), all = absl::StrCat(options_.ranks);
    environment["RANK"] = environment["LOCAL_RANK"] = number;
    environment["WORLD_SIZE"] = environment["LOCAL_WORLD_SIZE"] = all;
    environment["GROUP_RANK"] = "0";
    environment["MASTER_ADDR"] = "127.0.0.1";
    environment["MASTER_PORT"] = absl::StrCat(port_);
    environment[kLauncherVariable] = kSpawnedLauncher;
    environment[kSecretVariable] = secret_;
    environment.erase(kSocketVariable);
    if (rank == 0) environment[kSocketVariable] = absl::StrCat(socket_.get());
    std::vector<std::string> entries;
    for (const auto& [name, value] : environment) entries.push_back(absl::StrCat(name, "=", value));
    return entries;
  }

  absl::Status StartRank(int rank) {
    auto child = std::make_unique<Child>(rank);
    UniqueFd output, failed_read, failed_write;
    if (rank > 0) {
      RETURN_IF_ERROR(MakePipe(&child->output, &output));
      fcntl(child->output.get(), F_SETFL, O_NONBLOCK);
    }
    RETURN_IF_ERROR(MakePipe(&failed_read, &failed_write));
    // All that needs memory comes before the fork.
    const std::vector<std::string> environment = EnvironmentOf(rank);
    const std::vector<char*> argv = Pointers(options_.arguments), envp = Pointers(environment);
    const pid_t parent = getpid();
    child->pid = fork();
    if (child->pid < 0) return ErrnoStatus(errno, absl::StrCat("start rank ", rank));
    if (child->pid == 0) {
      Become(parent, output.get(), argv, envp);
      const int error = errno;
      (void)!write(failed_write.get(), &error, sizeof(error));
      _exit(127);
    }
    children_.push_back(std::move(child));
    failed_write = UniqueFd();
    int error = 0;
    const ssize_t size =
        RetryOnSignal([&] { return read(failed_read.get(), &error, sizeof(error)); });
    if (size != sizeof(error)) return absl::OkStatus();  // closed by exec
    return ErrnoStatus(error, absl::StrCat("start rank ", rank, " as ", options_.program));
  }

  // In the child: returns only where it failed, with errno. Calls nothing that takes a lock.
  void Become(pid_t parent, int output, const std::vector<char*>& argv,
              const std::vector<char*>& envp) const {
    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return;
    if (getppid() != parent) _exit(1);  // it died before that held
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) return;
    if (output >= 0 && (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)) return;
    if (socket_.get() >= 0 && fcntl(socket_.get(), F_SETFD, 0) != 0) return;
    sigprocmask(SIG_SETMASK, &signals_.of_ranks(), nullptr);
    execve(options_.program.c_str(), argv.data(), envp.data());
  }

  int Running() const {
    return std::count_if(children_.begin(), children_.end(),
                         [](const auto& child) { return child->pid > 0; });
  }

  void Send(int signal) const {
    for (const auto& child : children_) {
      if (child->pid > 0) kill(child->pid, signal);
    }
  }

  void Forward(int signal) {
    const auto [last, first] = forwarded_.emplace(signal, MonotonicSeconds());
    if (!first && MonotonicSeconds() - last->second < options_.same_signal_seconds) return;
    last->second = MonotonicSeconds();
    Send(signal);
  }

  // A terminal's Ctrl-Z: all stop until this process is told to go on.
  void Pause() const {
    Send(SIGSTOP);
    raise(SIGSTOP);
    Send(SIGCONT);
  }

  void WaitForSomething() const {
    std::vector<pollfd> watched = {{signals_.fd(), POLLIN, 0}};
    for (const auto& child : children_) {
      if (child->output.get() >= 0) watched.push_back({child->output.get(), POLLIN, 0});
    }
    int timeout_ms = -1;
    if (next_blow_) {
      timeout_ms =
          static_cast<int>(std::clamp((*next_blow_ - MonotonicSeconds()) * 1000 + 1, 0.0, 60e3));
    }
    poll(watched.data(), watched.size(), timeout_ms);
  }

  static void Print(absl::string_view lines) {
    if (lines.empty()) return;
    // On a terminal the first rank's progress may stand there.
    const std::string text = absl::StrCat(RedrawsStderr() ? kClearLine : "", lines);
    (void)WriteAll(STDERR_FILENO, text.data(), text.size());  // nobody reads: nobody misses it
  }

  // A buffer of each rank's, so that signals do not wait for a rank that never stops talking.
  // True where anything was there.
  bool ForwardOutput() {
    bool any = false;
    char buffer[4096];
    for (const auto& child : children_) {
      if (child->output.get() < 0) continue;
      const ssize_t size = read(child->output.get(), buffer, sizeof(buffer));
      if (size > 0) Print(child->lines.Add({buffer, static_cast<size_t>(size)}));
      if (size == 0) child->output = UniqueFd();
      any = any || size > 0;
    }
    return any;
  }

  void Reap() {
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      Child& child = *children_[rank];
      int state = 0;
      if (child.pid <= 0 || waitpid(child.pid, &state, WNOHANG) != child.pid) continue;
      child.pid = -1;
      const int code = WIFEXITED(state) ? WEXITSTATUS(state) : kFailedCode;
      if (code == kStoppedCode) stopped_ = true;
      if (code == 0 || code == kStoppedCode) continue;
      if (WIFSIGNALED(state) && !sent_) {
        const char* name = sigabbrev_np(WTERMSIG(state));
        LogError(absl::StrCat("rank ", rank, " was ended by ",
                              name == nullptr ? absl::StrCat("signal ", WTERMSIG(state))
                                              : absl::StrCat("SIG", name)));
      }
      if (failure_) {
        // A rank that only saw another leave may be gone before that one, which knows why.
        if (*failure_ == kFailedCode && code != kFailedCode && !sent_) failure_ = code;
        continue;
      }
      failure_ = code;
      failed_rank_ = rank;
      next_blow_ = MonotonicSeconds() + options_.grace_seconds;
    }
  }

  void EndTheOthers() {
    if (!next_blow_ || MonotonicSeconds() < *next_blow_ || Running() == 0) return;
    const int signal = sent_ ? SIGKILL : SIGTERM;
    std::vector<std::string> names;
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      if (children_[rank]->pid > 0) names.push_back(absl::StrCat("rank ", rank));
    }
    LogWarning(absl::StrCat(
        absl::StrJoin(names, ", "), " still ran ", options_.grace_seconds,
        sent_ ? " s after SIGTERM" : absl::StrCat(" s after rank ", failed_rank_, " had failed"),
        " and got SIG", sigabbrev_np(signal)));
    Send(signal);
    sent_ = true;
    next_blow_ = MonotonicSeconds() + options_.grace_seconds;
  }

  const SpawnOptions options_;
  const BlockedSignals signals_;
  // Of this run alone, whatever the environment has: its ranks are all started here.
  const std::string secret_ = NewRankSecret();
  int port_ = 0;
  // Bound to it and never listened at, for as long as any rank lives: where rank 0 dies, no other
  // program gets its port, which the other ranks would then take for rank 0.
  UniqueFd held_;
  UniqueFd socket_;  // bound to it, until rank 0 has it
  std::vector<std::unique_ptr<Child>> children_;
  std::map<int, double> forwarded_;  // when each signal was passed on last
  bool stopped_ = false;             // one ended with 75
  std::optional<int> failure_;       // the first failed rank's code, or a later one that says more
  size_t failed_rank_ = 0;
  std::optional<double> next_blow_;  // when those that still run get a signal
  bool sent_ = false;                // SIGTERM
};

}  // namespace

absl::StatusOr<SpawnOptions> SpawnThisProgram(int ranks) {
  SpawnOptions options;
  options.ranks = ranks;
  options.environment = ThisEnvironment();
  // By its own path, so that ps shows its name; where the file has been replaced, what runs here.
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
  options.program = "/proc/self/exe";
  if (size > 0 && access(std::string(path, size).c_str(), X_OK) == 0)
    options.program = {path, path + size};
  ASSIGN_OR_RETURN(const std::string line, ReadSmallFile("/proc/self/cmdline"));
  options.arguments = absl::StrSplit(line, '\0');
  options.arguments.pop_back();  // behind the last one's end
  return options;
}

absl::StatusOr<int> SpawnRanks(const SpawnOptions& options) {
  if (options.ranks < 1 || options.ranks > kMostSpawned) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ranks ", options.ranks, " is more than the ", kMostSpawned,
                     " that are started on one machine: use srun or mpirun over several"));
  }
  ShareTerminal(true);  // with the first of them
  Spawner spawner(options);
  RETURN_IF_ERROR(spawner.Start());
  return spawner.Wait();
}

}  // namespace spillway
