#include "engine/torch/rank_connection.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "c10/util/Logging.h"
#include "engine/base/stop_signal.h"
#include "engine/base/utf8.h"
#include "engine/machine/process_setup.h"
#include "engine/ranks/first_failure.h"
#include "engine/ranks/rank_call.h"
#include "engine/ranks/rank_listener.h"
#include "engine/ranks/socket_ranks.h"
#include "engine/torch/agent_store.h"
#include "engine/torch/rank_store_view.h"
#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr char kOutcomeKey[] = "outcome";
constexpr char kStopKey[] = "stop";  // the signal that stops ranks that connect
constexpr char kAllCame[] = "all came";
constexpr auto kPause = std::chrono::milliseconds(20);  // between two looks at what others do
// Rank 0's thread that listens answers at once, whatever its others do.
constexpr double kTableSeconds = 60;
// Of a rank that ends: the others give it ten seconds.
constexpr double kLastAnswerSeconds = 4;

// Where a rank listens for those of its conversations; an empty host is where the ranks meet.
std::string PlaceKey(int rank) { return absl::StrCat("at/", rank); }

std::string PlaceOf(const Launch& launch) {
  return absl::StrCat(launch.master_address, ":", launch.master_port);
}

absl::Status CannotListen(const Launch& launch, absl::string_view why, int error) {
  return absl::UnavailableError(absl::StrCat(
      "rank 0 can't listen at ", PlaceOf(launch), " for the other ranks (",
      error == EADDRINUSE ? "the port is in use" : why,
      "): give another MASTER_PORT, or the address of a network of this machine as MASTER_ADDR"));
}

class Connection : public RankConnection {
 public:
  explicit Connection(const ConnectOptions& options) : options_(options) {
    const Launch& launch = options.launch;
    identity_ = {launch.secret, absl::StrCat(launch.job_id, "/", launch.restart),
                 options.grid.size};
    wait_ = {MonotonicSeconds() + options.timeout_seconds, StopSignal::Check};
  }

  absl::Status Meet() {
    const Launch& launch = options_.launch;
    if (launch.rank == 0) {
      RETURN_IF_ERROR(OpenMeeting());
      WarnOfNoSecret();
    } else {
      RETURN_IF_ERROR(JoinMeeting());
    }
    const absl::Status met = AwaitAll();
    if (met.ok() || meeting_failed_ || StopSignal::received() != 0) return met;
    return absl::UnavailableError(absl::StrCat("stopped because rank 0 at ", PlaceOf(launch),
                                               " is gone, before the run began"));
  }

  // Once all have come.
  absl::Status Connect() {
    const ShardGrid& grid = options_.grid;
    wait_.deadline = MonotonicSeconds() + options_.timeout_seconds;
    wait_.interrupted = [this] { return OthersGoOn(); };
    std::vector<int> world(grid.size);
    std::iota(world.begin(), world.end(), 0);
    RETURN_IF_ERROR(FindPlaces());
    ASSIGN_OR_RETURN(world_, Talk("world", world));
    // Before the conversations that depend on it who is in them.
    RETURN_IF_ERROR(CompareIdentities());
    ASSIGN_OR_RETURN(commits_, Talk("commits", world));
    if (grid.group > 1) {
      ASSIGN_OR_RETURN(group_, Talk(GroupName(), Group()));
    }
    if (grid.replicas() > 1) {
      ASSIGN_OR_RETURN(replicas_, Talk(ReplicasName(), Replicas()));
    }
    // From now on nobody but a rank that is started twice has anything to look for here.
    pairs_.reset();
    if (meeting_ != nullptr) meeting_->EndPairs();
    if (remote_ != nullptr) remote_->SetInterrupted(nullptr);
    return absl::OkStatus();
  }

  absl::StatusOr<OnGpu> ConnectGpus(CudaSupport& cuda, const ComputePlace& place) override {
    OnGpu gpus;
    const auto somebody_failed = [this] { return SomebodyFailed(*store_); };
    const auto view = c10::make_intrusive<RankStoreView>(
        store_, std::chrono::milliseconds(static_cast<int64_t>(options_.timeout_seconds * 1000)));
    // A rank that has none by now is not waited for in there.
    RETURN_IF_ERROR(AllGatherCount(*world_, 0).status());
    if (group_) {
      ASSIGN_OR_RETURN(gpus.group,
                       cuda.Connect(view, Options(GroupName(), Group()), place, somebody_failed));
    }
    if (replicas_) {
      ASSIGN_OR_RETURN(gpus.replicas, cuda.Connect(view, Options(ReplicasName(), Replicas()), place,
                                                   somebody_failed));
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
    // Where the way to rank 0 is cut its table answers neither yes nor no.
    if (remote_ != nullptr) remote_->SetTimeout(kLastAnswerSeconds);
    return AgreeOnFirstFailure(*store_, options_.launch.rank, options_.grid.size, own);
  }

  absl::Status Close() override {
    RETURN_IF_ERROR(AllGatherCount(*world_, 0).status());
    const auto left = store_->Add("left", 1);
    if (options_.launch.rank > 0) return absl::OkStatus();  // where rank 0 is gone all is said
    // The table is in this process.
    const double until = MonotonicSeconds() + 10;
    while (table_.Add("left", 0).value_or(0) < options_.grid.size && MonotonicSeconds() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return left.status();
  }

 private:
  // -- where the ranks meet ---------------------------------------------------------------

  // The first address of MASTER_ADDR, which a cluster may make later than the job's ranks.
  absl::StatusOr<RankAddress> MasterAddress(int port) const {
    const Launch& launch = options_.launch;
    while (true) {
      const auto found = ResolveRankHost(launch.master_address, port, wait_);
      if (found.ok()) return found->front();
      if (!absl::IsUnavailable(found.status())) return found.status();
      const absl::Status goes_on = wait_.Check();
      if (absl::IsDeadlineExceeded(goes_on)) {
        return HasNoAddress(0, launch.master_address, found.status());
      }
      RETURN_IF_ERROR(goes_on);
      std::this_thread::sleep_for(10 * kPause);
    }
  }

  // A socket that is bound to the address of MASTER_ADDR, or to all of this machine where that is
  // not one by which others reach it.
  absl::StatusOr<UniqueFd> BindMeeting() {
    const Launch& launch = options_.launch;
    if (launch.master_socket >= 0) {
      fcntl(launch.master_socket, F_SETFD, FD_CLOEXEC);
      return UniqueFd(launch.master_socket);
    }
    const int port = launch.agent_store ? 0 : launch.master_port;
    const bool ranks_elsewhere = launch.local_world < launch.world;
    ASSIGN_OR_RETURN(const RankAddress master, MasterAddress(port));
    if (master.is_loopback()) RETURN_IF_ERROR(CheckLoopback(master));
    int error = 0;
    absl::StatusOr<UniqueFd> bound;
    if (!ranks_elsewhere || !master.is_loopback()) {
      // Torchrun's agent listens at the port itself, on the machine of rank 0 as a rule.
      bound = BindRankSocket(
          launch.agent_store ? OwnAddressTowards(master).value_or(master) : master, &error);
      if (bound.ok()) return bound;
      if (error != EADDRNOTAVAIL) return CannotListen(launch, bound.status().message(), error);
    }
    // A name for this machine that is a loopback address here (Debian's 127.0.1.1), or an address
    // that is translated on its way (a Kubernetes service's).
    bound = BindRankSocketToAll(port, &error);
    if (!bound.ok()) return CannotListen(launch, bound.status().message(), error);
    LogWarning(absl::StrCat("rank 0 listens on all networks of this machine, because MASTER_ADDR ",
                            launch.master_address,
                            " is here no address by which other machines reach it"));
    return bound;
  }

  absl::Status OpenMeeting() {
    const Launch& launch = options_.launch;
    ASSIGN_OR_RETURN(UniqueFd socket, BindMeeting());
    auto opened = RankListener::Open(ListenerOptions(&table_), std::move(socket));
    if (!opened.ok()) return CannotListen(launch, opened.status().message(), 0);
    meeting_ = *std::move(opened);
    store_ = &table_;
    if (NamedInterface() != nullptr) {
      ASSIGN_OR_RETURN(const RankAddress own, AddressOfInterface(NamedInterface()));
      RETURN_IF_ERROR(ListenForPairs(own));
    }
    if (!launch.agent_store) return absl::OkStatus();
    const RankAddress own = meeting_->address();
    const bool named = own.host() != "::" && own.host() != "0.0.0.0" && !own.is_loopback();
    return TellRankZeroPlace(launch, {named ? own.host() : "", own.port()}, wait_);
  }

  absl::Status JoinMeeting() {
    const Launch& launch = options_.launch;
    meeting_place_ = {launch.master_address, launch.master_port};
    if (launch.agent_store) {
      ASSIGN_OR_RETURN(meeting_place_, AskRankZeroPlace(launch, wait_));
      if (meeting_place_.host.empty()) meeting_place_.host = launch.master_address;
    }
    ASSIGN_OR_RETURN(UniqueFd connection, Call(meeting_place_, 0, kStoreConversation));
    remote_ = std::make_unique<RemoteRankStore>(std::move(connection), kTableSeconds);
    remote_->SetInterrupted(StopSignal::Check);
    store_ = remote_.get();
    if (NamedInterface() == nullptr) return ListenForPairs(remote_->own_address().WithPort(0));
    ASSIGN_OR_RETURN(const RankAddress own, AddressOfInterface(NamedInterface()));
    return ListenForPairs(own);
  }

  void WarnOfNoSecret() const {
    if (!identity_.secret.empty()) return;
    LogWarning(absl::StrCat(
        "the ranks meet without a secret: any program that reaches ", PlaceOf(options_.launch),
        " can take part in this run or end it; start all ranks with the same SPILLWAY_SECRET "
        "(`openssl rand -hex 32` makes one)"));
  }

  // -- who has come -------------------------------------------------------------------------

  absl::StatusOr<std::string> MissingRanks() {
    std::vector<std::string> missing;
    for (int rank = 1; rank < options_.grid.size; ++rank) {
      ASSIGN_OR_RETURN(const auto place, store_->Get(PlaceKey(rank)));
      const bool there = meeting_ == nullptr || meeting_->IsPresent(rank);
      if (!place.has_value() || !there) missing.push_back(std::to_string(rank));
    }
    if (missing.empty()) return std::string();
    return absl::StrCat(missing.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing, ", "));
  }

  // What becomes of the meeting as far as this rank knows; "" where it has to wait.
  absl::StatusOr<std::string> Outcome() {
    if (StopSignal::received() != 0) return std::to_string(StopSignal::received());
    const bool late = MonotonicSeconds() >= wait_.deadline;
    if (meeting_ == nullptr && !late) return std::string();  // rank 0 sees who has come
    ASSIGN_OR_RETURN(const std::string missing, MissingRanks());
    if (missing.empty()) return std::string(meeting_ != nullptr ? kAllCame : "");
    if (!late) return std::string();
    return absl::StrCat(
        missing, " of ", options_.grid.size, " did not come to ", PlaceOf(options_.launch),
        " within ", options_.timeout_seconds,
        " s: look at their output, and whether their machines reach that address (or give "
        "them longer: --collective-timeout)");
  }

  // Who knows first what becomes of the meeting says it for all, so that all go on or none does.
  absl::Status AwaitAll() {
    RETURN_IF_ERROR(TellPlace());
    std::string outcome;
    while (outcome.empty()) {
      ASSIGN_OR_RETURN(const std::string own, Outcome());
      if (!own.empty()) {
        ASSIGN_OR_RETURN(outcome, store_->SetIfAbsent(kOutcomeKey, own));
      } else {
        ASSIGN_OR_RETURN(const auto told, store_->Get(kOutcomeKey));
        outcome = told.value_or("");
        if (outcome.empty()) std::this_thread::sleep_for(kPause);
      }
    }
    if (meeting_ != nullptr) meeting_->Begin();
    if (outcome == kAllCame) return absl::OkStatus();
    // The others, who look every 20 ms, are to read it in this process's table.
    if (options_.launch.rank == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    meeting_failed_ = true;
    RETURN_IF_ERROR(StopAs(outcome));
    return absl::UnavailableError(AsCleanLine(outcome));
  }

  // Where the text is the number of a signal that came to another rank, it has come here, too.
  static absl::Status StopAs(const std::string& text) {
    int signal = 0;
    const std::vector<int> handled = StopSignal::Handled();
    if (!absl::SimpleAtoi(text, &signal) ||
        std::find(handled.begin(), handled.end(), signal) == handled.end()) {
      return absl::OkStatus();
    }
    StopSignal::Receive(signal);
    return StopSignal::Check();
  }

  // -- conversations ------------------------------------------------------------------------

  RankListenerOptions ListenerOptions(RankStore* store) const {
    RankListenerOptions listener;
    listener.identity = identity_;
    listener.rank = options_.launch.rank;
    listener.store = store;
    if (store != nullptr) {
      // One that is started again in its place listens elsewhere.
      listener.left = [store](int rank) { (void)store->Erase(PlaceKey(rank)); };
    }
    // All ranks may come at the same moment.
    listener.most_strangers = kMostRankStrangers + options_.grid.size;
    return listener;
  }

  // As in torch, the interface that a user names is where other ranks connect to this one.
  static const char* NamedInterface() {
    const char* name = std::getenv("GLOO_SOCKET_IFNAME");
    return name == nullptr || *name == '\0' ? nullptr : name;
  }

  // Opens a listener of this rank's own.
  absl::Status ListenForPairs(const RankAddress& own) {
    int error = 0;
    auto socket = BindRankSocket(own, &error);
    if (!socket.ok()) {
      return Annotate(socket.status(),
                      absl::StrCat("rank ", options_.launch.rank, " can't listen at ", own.host(),
                                   " for the other ranks"));
    }
    ASSIGN_OR_RETURN(pairs_, RankListener::Open(ListenerOptions(nullptr), *std::move(socket)));
    return absl::OkStatus();
  }

  absl::Status TellPlace() {
    if (pairs_ == nullptr) return absl::OkStatus();
    const RankAddress own = pairs_->address();
    return store_->Set(PlaceKey(options_.launch.rank), absl::StrCat(own.port(), " ", own.host()));
  }

  // OK while no rank has failed or was stopped: one that has will not connect.
  absl::Status OthersGoOn() {
    if (const int signal = StopSignal::received(); signal != 0) {
      (void)store_->SetIfAbsent(kStopKey, std::to_string(signal));
      return StopSignal::Check();
    }
    ASSIGN_OR_RETURN(const auto stopped, store_->Get(kStopKey));
    RETURN_IF_ERROR(StopAs(stopped.value_or("")));
    if (!SomebodyFailed(*store_)) return absl::OkStatus();
    return absl::UnavailableError("another rank has failed");
  }

  // Of all ranks below this one, which connects to them.
  absl::Status FindPlaces() {
    places_.resize(options_.launch.rank);
    for (int rank = 0; rank < options_.launch.rank; ++rank) {
      ASSIGN_OR_RETURN(const auto told, store_->Get(PlaceKey(rank)));
      const std::vector<std::string> words = absl::StrSplit(told.value_or(""), ' ');
      if (rank == 0 && !told.has_value()) {
        places_[rank] = meeting_place_;
        continue;
      }
      if (words.size() != 2 || !absl::SimpleAtoi(words[0], &places_[rank].port)) {
        return absl::UnavailableError(
            absl::StrCat("rank ", rank, " has not told where it listens"));
      }
      places_[rank].host = words[1];
    }
    return absl::OkStatus();
  }

  absl::StatusOr<UniqueFd> Call(const RankZeroPlace& place, int rank,
                                const std::string& conversation) const {
    RankCallOptions call;
    call.identity = identity_;
    call.caller = {options_.launch.rank, conversation};
    call.to_rank = rank;
    call.host = place.host;
    call.port = place.port;
    return CallRank(call, wait_);
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

  ConversationOptions Options(const std::string& name, const std::vector<int>& members) const {
    return {name, members, options_.launch.rank, options_.timeout_seconds};
  }

  // Every rank connects to those below it, and is connected to by those above.
  absl::StatusOr<std::unique_ptr<Collectives>> Talk(const std::string& name,
                                                    const std::vector<int>& members) {
    RankListener& listener = pairs_ != nullptr ? *pairs_ : *meeting_;
    std::vector<UniqueFd> sockets;
    for (const int member : members) {
      UniqueFd socket;
      if (member < options_.launch.rank) {
        ASSIGN_OR_RETURN(socket, Call(places_[member], member, name));
      } else if (member > options_.launch.rank) {
        auto taken = listener.Take(name, member, wait_);
        if (absl::IsDeadlineExceeded(taken.status())) {
          return HasNotAnswered(member, options_.timeout_seconds);
        }
        ASSIGN_OR_RETURN(socket, std::move(taken));
      }
      sockets.push_back(std::move(socket));
    }
    return MakeSocketRanks(Options(name, members), std::move(sockets));
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
  RankIdentity identity_;
  RankWait wait_;
  RankZeroPlace meeting_place_;        // of rank 0, for the others
  std::vector<RankZeroPlace> places_;  // of the ranks below this one
  bool meeting_failed_ = false;        // its outcome says why
  RankTable table_;                    // rank 0's
  std::unique_ptr<RemoteRankStore> remote_;
  RankStore* store_ = nullptr;  // either of them
  std::unique_ptr<RankListener> meeting_, pairs_;
  std::unique_ptr<Collectives> world_, group_, replicas_, commits_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankConnection>> RankConnection::Open(
    const ConnectOptions& options) {
  // c10d warns of what nobody can mend (hosts without names), and writes of its errors what we say.
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
  c10::initLogging();
  FailWritesToNobody();
  auto connection = std::make_unique<Connection>(options);
  RETURN_IF_ERROR(connection->Meet());
  if (const absl::Status connected = connection->Connect(); !connected.ok()) {
    if (StopSignal::received() != 0) return StopSignal::Check();
    return SeesOthersGone(connected) ? connection->FirstFailure(connected) : connected;
  }
  return std::unique_ptr<RankConnection>(std::move(connection));
}

}  // namespace spillway
