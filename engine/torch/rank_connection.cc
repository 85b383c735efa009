#include "engine/torch/rank_connection.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "c10/util/Logging.h"
#include "engine/base/stop_signal.h"
#include "engine/machine/process_setup.h"
#include "engine/torch/first_failure.h"
#include "engine/torch/gloo_ranks.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "torch/csrc/distributed/c10d/PrefixStore.hpp"
#include "torch/csrc/distributed/c10d/TCPStore.hpp"

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

constexpr char kOutcomeKey[] = "outcome";
constexpr char kAllCame[] = "all came";
constexpr auto kPause = std::chrono::milliseconds(20);  // between two looks at what others do

std::string PlaceOf(const Launch& launch) {
  return absl::StrCat(launch.master_address, ":", launch.master_port);
}

// Until this machine knows rank 0's by its name: a cluster may make it later than the job's ranks.
absl::Status AwaitName(const Launch& launch, Clock::time_point deadline) {
  const auto late = Clock::now() + std::chrono::seconds(5);
  bool warned = false;
  while (true) {
    addrinfo* found = nullptr;
    const int error = getaddrinfo(launch.master_address.c_str(), nullptr, nullptr, &found);
    if (error == 0) {
      freeaddrinfo(found);
      return absl::OkStatus();
    }
    const std::string text = absl::StrCat("rank 0's machine, ", launch.master_address,
                                          " (MASTER_ADDR) has no address that this machine knows (",
                                          gai_strerror(error), ")");
    if (Clock::now() >= deadline) {
      return absl::UnavailableError(
          absl::StrCat(text, ": give MASTER_ADDR a name or an address that all machines know"));
    }
    if (!warned && Clock::now() >= late) {
      LogWarning(absl::StrCat(text, "; it is waited for"));
      warned = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

absl::StatusOr<StorePtr> OpenStore(const Launch& launch, Clock::time_point deadline) {
  RETURN_IF_ERROR(AwaitName(launch, deadline));
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(launch.master_port);
  options.isServer = launch.rank == 0 && !launch.agent_store;
  if (options.isServer && launch.master_socket >= 0) {
    fcntl(launch.master_socket, F_SETFD, FD_CLOEXEC);
    options.masterListenFd = launch.master_socket;
  }
  options.waitWorkers = false;
  options.useLibUV = false;
  options.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::max<Clock::duration>(deadline - Clock::now(), std::chrono::seconds(1)));
  try {
    StorePtr store = c10::make_intrusive<c10d::TCPStore>(launch.master_address, options);
    return StorePtr(c10::make_intrusive<c10d::PrefixStore>(
        absl::StrCat("spillway/", launch.job_id, "/", launch.restart), store));
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (options.isServer) {
      return absl::UnavailableError(absl::StrCat(
          "rank 0 can't listen at ", PlaceOf(launch), " for the other ranks (",
          absl::StrContains(text, "EADDRINUSE") || absl::StrContains(text, "ddress already in use")
              ? "the port is in use"
              : text.substr(0, text.find('\n')),
          "): give another MASTER_PORT, or the address of a network of this machine as "
          "MASTER_ADDR"));
    }
    return absl::UnavailableError(
        absl::StrCat("rank ", launch.rank, " does not reach rank 0 at ", PlaceOf(launch), " (",
                     text.substr(0, text.find('\n')),
                     "): is rank 0 running there, and may this machine connect to it (MASTER_ADDR, "
                     "MASTER_PORT, --collective-timeout)?"));
  }
}

// The same, until a signal comes: what opens the store looks at none, and is left behind then.
absl::StatusOr<StorePtr> OpenStoreUnlessStopped(const Launch& launch, Clock::time_point deadline) {
  std::packaged_task<absl::StatusOr<StorePtr>()> opening(
      [launch, deadline] { return OpenStore(launch, deadline); });
  std::future<absl::StatusOr<StorePtr>> opened = opening.get_future();
  std::thread(std::move(opening)).detach();
  while (opened.wait_for(kPause) != std::future_status::ready) {
    RETURN_IF_ERROR(StopSignal::Check());
  }
  return opened.get();
}

// The address of this machine by which it reaches rank 0's, which is the one that other ranks
// reach it by.
std::string OwnAddressTowards(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return "";
  std::string address;
  for (const addrinfo* to = found; to != nullptr && address.empty(); to = to->ai_next) {
    const int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    char text[NI_MAXHOST];
    // No packet is sent: the kernel chooses the route.
    if (fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
        getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      address = text;
    }
    if (fd >= 0) close(fd);
  }
  freeaddrinfo(found);
  return address;
}

class Connection : public RankConnection {
 public:
  explicit Connection(const ConnectOptions& options) : options_(options) {}

  absl::Status Meet() {
    const Launch& launch = options_.launch;
    const auto deadline = Clock::now() + std::chrono::milliseconds(
                                             static_cast<int64_t>(options_.timeout_seconds * 1000));
    ASSIGN_OR_RETURN(store_, OpenStoreUnlessStopped(launch, deadline));
    try {
      store_->set(HereKey(launch.rank), "1");
      RETURN_IF_ERROR(AwaitAll(deadline));
    } catch (const std::exception& error) {
      RETURN_IF_ERROR(StopSignal::Check());  // whom it came to as well
      // Which has the store.
      return absl::UnavailableError(absl::StrCat("stopped because rank 0 at ", PlaceOf(launch),
                                                 " is gone, before the run began"));
    }
    return absl::OkStatus();
  }

  // Once all have come.
  absl::Status Connect() {
    const Launch& launch = options_.launch;
    const std::string address = OwnAddressTowards(launch.master_address, launch.master_port);
    const ShardGrid& grid = options_.grid;
    std::vector<int> world(grid.size);
    std::iota(world.begin(), world.end(), 0);
    ASSIGN_OR_RETURN(world_, Talk("world", world, address));
    // Before the conversations that depend on it who is in them.
    RETURN_IF_ERROR(CompareIdentities());
    ASSIGN_OR_RETURN(commits_, Talk("commits", world, address));
    if (grid.group > 1) {
      ASSIGN_OR_RETURN(group_, Talk(GroupName(), Group(), address));
    }
    if (grid.replicas() > 1) {
      ASSIGN_OR_RETURN(replicas_, Talk(ReplicasName(), Replicas(), address));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<OnGpu> ConnectGpus(CudaSupport& cuda, const ComputePlace& place) override {
    OnGpu gpus;
    const auto somebody_failed = [this] {
      try {
        return SomebodyFailed(*store_);
      } catch (const std::exception&) {
        return true;  // rank 0 is gone, which has the store
      }
    };
    // A rank that has none by now is not waited for in there.
    RETURN_IF_ERROR(AllGatherCount(*world_, 0).status());
    if (group_) {
      ASSIGN_OR_RETURN(gpus.group, cuda.Connect(store_, Options(GroupName(), Group(), ""), place,
                                                somebody_failed));
    }
    if (replicas_) {
      ASSIGN_OR_RETURN(gpus.replicas, cuda.Connect(store_, Options(ReplicasName(), Replicas(), ""),
                                                   place, somebody_failed));
    }
    return gpus;
  }

  RankGroups groups() override {
    return {.world = world_.get(),
            .group = group_.get(),
            .replicas = replicas_.get(),
            .host_replicas = replicas_.get(),
            .commits = commits_.get()};
  }

  uint64_t sent_bytes() const override {
    uint64_t bytes = 0;
    for (const auto* talk : {&world_, &group_, &replicas_, &commits_}) {
      if (*talk) bytes += (*talk)->sent_bytes();
    }
    return bytes;
  }

  absl::Status FirstFailure(const absl::Status& own) override {
    if (IsBecauseOfAnother(own)) return own;  // who says it itself
    // Where the way to rank 0 is cut its store answers neither yes nor no: whoever asks it is
    // left behind with it.
    auto answer = std::make_shared<std::promise<absl::Status>>();
    std::future<absl::Status> answered = answer->get_future();
    std::thread([store = store_, rank = options_.launch.rank, own, answer] {
      answer->set_value(AgreeOnFirstFailure(*store, rank, own));
    }).detach();
    if (answered.wait_for(std::chrono::seconds(8)) == std::future_status::ready) {
      return answered.get();
    }
    store_.release();  // the asking thread's, for ever
    return AsConsequence(own);
  }

  absl::Status Close() override {
    RETURN_IF_ERROR(AllGatherCount(*world_, 0).status());
    try {
      const int left = static_cast<int>(store_->add("left", 1));
      // The server lives in rank 0's process.
      const auto until = Clock::now() + std::chrono::seconds(10);
      while (options_.launch.rank == 0 && left < options_.grid.size && Clock::now() < until &&
             store_->add("left", 0) < options_.grid.size) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    } catch (const std::exception&) {
      // Rank 0 has left already: all is said.
    }
    return absl::OkStatus();
  }

 private:
  static std::string HereKey(int rank) { return absl::StrCat("here/", rank); }

  // What becomes of the meeting as far as this rank knows; "" where it has to wait.
  std::string Outcome(Clock::time_point deadline) {
    std::vector<std::string> missing;
    for (int rank = 0; rank < options_.grid.size; ++rank) {
      if (!store_->check({HereKey(rank)})) missing.push_back(std::to_string(rank));
    }
    if (missing.empty()) return kAllCame;
    if (StopSignal::received() != 0) return std::to_string(StopSignal::received());
    if (Clock::now() < deadline) return "";
    return absl::StrCat(
        missing.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing, ", "), " of ",
        options_.grid.size, " did not come to ", PlaceOf(options_.launch), " within ",
        options_.timeout_seconds,
        " s: look at their output, and whether their machines reach that address (or give "
        "them longer: --collective-timeout)");
  }

  // Who knows first what becomes of the meeting says it for all, so that all go on or none does.
  absl::Status AwaitAll(Clock::time_point deadline) {
    std::string outcome;
    while (outcome.empty()) {
      if (const std::string own = Outcome(deadline); !own.empty()) {
        outcome = store_->compareSet(kOutcomeKey, "", own);
      } else if (store_->check({kOutcomeKey})) {
        outcome = store_->get_to_str(kOutcomeKey);
      } else {
        std::this_thread::sleep_for(kPause);
      }
    }
    if (outcome == kAllCame) return absl::OkStatus();
    // The store may live in this process: the others, who look every 20 ms, are to read it.
    if (options_.launch.rank == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    int signal = 0;
    if (!absl::SimpleAtoi(outcome, &signal)) return absl::UnavailableError(outcome);
    StopSignal::Receive(signal);
    return StopSignal::Check();
  }

  std::string GroupName() const { return absl::StrCat("group", options_.grid.replica()); }
  std::vector<int> Group() const {
    std::vector<int> members(options_.grid.group);
    std::iota(members.begin(), members.end(), options_.grid.replica() * options_.grid.group);
    return members;
  }
  std::string ReplicasName() const { return absl::StrCat("replicas", options_.grid.shard()); }
  std::vector<int> Replicas() const {
    std::vector<int> members;
    for (int rank = options_.grid.shard(); rank < options_.grid.size; rank += options_.grid.group) {
      members.push_back(rank);
    }
    return members;
  }

  GlooOptions Options(const std::string& name, const std::vector<int>& members,
                      const std::string& address) const {
    GlooOptions options;
    options.name = name;
    options.members = members;
    options.rank = options_.launch.rank;
    options.address = address;
    options.timeout_seconds = options_.timeout_seconds;
    return options;
  }

  absl::StatusOr<std::unique_ptr<Collectives>> Talk(const std::string& name,
                                                    const std::vector<int>& members,
                                                    const std::string& address) {
    return ConnectGloo(store_, Options(name, members, address));
  }

  absl::Status CompareIdentities() {
    ASSIGN_OR_RETURN(const std::string first, FromFirstRank(*world_, options_.identity));
    absl::Status same;
    if (first != options_.identity) {
      const std::vector<std::string> theirs = absl::StrSplit(first, '\n');
      const std::vector<std::string> ours = absl::StrSplit(options_.identity, '\n');
      size_t line = 0;
      while (line < theirs.size() && line < ours.size() && theirs[line] == ours[line]) ++line;
      same = absl::InvalidArgumentError(
          absl::StrCat("rank ", options_.launch.rank, " was started otherwise than rank 0: here ",
                       line < ours.size() ? ours[line] : "nothing", ", there ",
                       line < theirs.size() ? theirs[line] : "nothing",
                       "; give all ranks the same program, config and flags"));
    }
    return Agree(*world_, same);
  }

  const ConnectOptions options_;
  StorePtr store_;
  std::unique_ptr<Collectives> world_, group_, replicas_, commits_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankConnection>> RankConnection::Open(
    const ConnectOptions& options) {
  // c10d warns of what nobody can mend (hosts without names), and writes of its errors what we say.
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
  c10::initLogging();
  FailWritesToNobody();  // Gloo writes to sockets without MSG_NOSIGNAL
  auto connection = std::make_unique<Connection>(options);
  RETURN_IF_ERROR(connection->Meet());
  if (const absl::Status connected = connection->Connect(); !connected.ok()) {
    return SeesOthersGone(connected) ? connection->FirstFailure(connected) : connected;
  }
  return std::unique_ptr<RankConnection>(std::move(connection));
}

}  // namespace spillway
