#include "engine/torch/rank_meeting.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/stop_signal.h"
#include "engine/base/utf8.h"
#include "engine/ranks/collectives.h"
#include "engine/ranks/first_failure.h"
#include "engine/ranks/rank_socket.h"
#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr char kOutcomeKey[] = "outcome";
constexpr char kStopKey[] = "stop";  // the signal that stops ranks that connect
constexpr char kAllCame[] = "all came";
constexpr auto kPause = std::chrono::milliseconds(20);  // interval of polling the others' state
// Rank 0's listening thread answers at once, whatever its other threads do.
constexpr double kTableSeconds = 60;
// For a rank that ends: the others give it ten seconds.
constexpr double kLastAnswerSeconds = 4;

// Address of a rank's own listener for conversations; if missing, it is that of the meeting place.
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

// As in torch, other ranks connect to the interface that the user names.
const char* NamedInterface() {
  const char* name = std::getenv("GLOO_SOCKET_IFNAME");
  return name == nullptr || *name == '\0' ? nullptr : name;
}

// If the text is the number of a signal that came to another rank, this rank receives it, too.
absl::Status StopAs(const std::string& text) {
  int signal = 0;
  const std::vector<int> handled = StopSignal::Handled();
  if (!absl::SimpleAtoi(text, &signal) ||
      std::find(handled.begin(), handled.end(), signal) == handled.end()) {
    return absl::OkStatus();
  }
  StopSignal::Receive(signal);
  return StopSignal::Check();
}

}  // namespace

RankMeeting::RankMeeting(const Launch& launch, double timeout_seconds)
    : launch_(launch),
      timeout_seconds_(timeout_seconds),
      identity_{launch.secret, absl::StrCat(launch.job_id, "/", launch.restart), launch.world},
      wait_{MonotonicSeconds() + timeout_seconds, StopSignal::Check} {}

absl::Status RankMeeting::Meet() {
  RETURN_IF_ERROR(launch_.rank == 0 ? Open() : Join());
  const absl::Status met = AwaitAll();
  if (!met.ok() && !failed_ && StopSignal::received() == 0) {
    return absl::UnavailableError(absl::StrCat("stopped because rank 0 at ", PlaceOf(launch_),
                                               " is gone, before the run began"));
  }
  RETURN_IF_ERROR(met);
  wait_.deadline = MonotonicSeconds() + timeout_seconds_;
  wait_.interrupted = [this] { return OthersGoOn(); };
  return absl::OkStatus();
}

absl::StatusOr<std::vector<UniqueFd>> RankMeeting::ConnectMembers(const std::string& name,
                                                                  const std::vector<int>& members) {
  RankListener& listener = members_ != nullptr ? *members_ : *listener_;
  std::vector<UniqueFd> sockets;
  for (const int member : members) {
    UniqueFd socket;
    if (member < launch_.rank) {
      ASSIGN_OR_RETURN(const RankZeroPlace place, PlaceOfRank(member));
      ASSIGN_OR_RETURN(socket, Call(place, member, name));
    } else if (member > launch_.rank) {
      auto taken = listener.Take(name, member, wait_);
      if (absl::IsDeadlineExceeded(taken.status())) {
        return HasNotAnswered(member, timeout_seconds_);
      }
      ASSIGN_OR_RETURN(socket, std::move(taken));
    }
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

void RankMeeting::EndConnecting() {
  members_.reset();
  if (listener_ != nullptr) listener_->EndPairs();
  if (remote_ != nullptr) remote_->SetInterrupted(nullptr);
}

absl::Status RankMeeting::FirstFailure(const absl::Status& own) {
  if (remote_ != nullptr) remote_->SetTimeout(kLastAnswerSeconds);
  return AgreeOnFirstFailure(*store_, launch_.rank, launch_.world, own);
}

absl::Status RankMeeting::Leave() {
  const auto left = store_->Add("left", 1);
  if (launch_.rank > 0) return absl::OkStatus();  // if rank 0 is gone, the failure is known
  const double until = MonotonicSeconds() + 10;
  while (table_.Add("left", 0).value_or(0) < launch_.world && MonotonicSeconds() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return left.status();
}

// The first address of MASTER_ADDR, which a cluster may register after the ranks have started.
absl::StatusOr<RankAddress> RankMeeting::MasterAddress(int port) const {
  while (true) {
    const auto found = ResolveRankHost(launch_.master_address, port, wait_);
    if (found.ok()) return found->front();
    if (!absl::IsUnavailable(found.status())) return found.status();
    const absl::Status goes_on = wait_.Check();
    if (absl::IsDeadlineExceeded(goes_on)) {
      return HasNoAddress(0, launch_.master_address, found.status());
    }
    RETURN_IF_ERROR(goes_on);
    std::this_thread::sleep_for(10 * kPause);
  }
}

// A socket bound to the address of MASTER_ADDR, or to all addresses of this machine if others do
// not reach it by that one.
absl::StatusOr<UniqueFd> RankMeeting::Bind() {
  if (launch_.master_socket >= 0) {
    fcntl(launch_.master_socket, F_SETFD, FD_CLOEXEC);
    return UniqueFd(launch_.master_socket);
  }
  const int port = launch_.agent_store ? 0 : launch_.master_port;
  const bool ranks_elsewhere = launch_.local_world < launch_.world;
  ASSIGN_OR_RETURN(const RankAddress master, MasterAddress(port));
  if (master.is_loopback()) RETURN_IF_ERROR(CheckLoopback(master));
  int error = 0;
  absl::StatusOr<UniqueFd> bound;
  if (!ranks_elsewhere || !master.is_loopback()) {
    // Torchrun's agent listens at the port itself, usually on the machine of rank 0.
    bound = BindRankSocket(
        launch_.agent_store ? OwnAddressTowards(master).value_or(master) : master, &error);
    if (bound.ok()) return bound;
    if (error != EADDRNOTAVAIL) return CannotListen(launch_, bound.status().message(), error);
  }
  // The name may be a loopback address on this machine (Debian's 127.0.1.1), or an address that is
  // translated (a Kubernetes service's).
  bound = BindRankSocketToAll(port, &error);
  if (!bound.ok()) return CannotListen(launch_, bound.status().message(), error);
  LogWarning(absl::StrCat("rank 0 listens on all networks of this machine, because MASTER_ADDR ",
                          launch_.master_address,
                          " is here no address by which other machines reach it"));
  return bound;
}

absl::Status RankMeeting::Open() {
  ASSIGN_OR_RETURN(UniqueFd socket, Bind());
  auto opened = RankListener::Open(ListenerOptions(&table_), std::move(socket));
  if (!opened.ok()) return CannotListen(launch_, opened.status().message(), 0);
  listener_ = *std::move(opened);
  store_ = &table_;
  WarnOfNoSecret();
  if (NamedInterface() != nullptr) {
    ASSIGN_OR_RETURN(const RankAddress own, AddressOfInterface(NamedInterface()));
    RETURN_IF_ERROR(ListenForMembers(own));
  }
  if (!launch_.agent_store) return absl::OkStatus();
  const RankAddress own = listener_->address();
  const bool named = own.host() != "::" && own.host() != "0.0.0.0" && !own.is_loopback();
  return TellRankZeroPlace(launch_, {named ? own.host() : "", own.port()}, wait_);
}

absl::Status RankMeeting::Join() {
  rank_zero_ = {launch_.master_address, launch_.master_port};
  if (launch_.agent_store) {
    ASSIGN_OR_RETURN(rank_zero_, AskRankZeroPlace(launch_, wait_));
    if (rank_zero_.host.empty()) rank_zero_.host = launch_.master_address;
  }
  ASSIGN_OR_RETURN(UniqueFd connection, Call(rank_zero_, 0, kStoreConversation));
  remote_ = std::make_unique<RemoteRankStore>(std::move(connection), kTableSeconds);
  remote_->SetInterrupted(StopSignal::Check);
  store_ = remote_.get();
  if (NamedInterface() == nullptr) return ListenForMembers(remote_->own_address().WithPort(0));
  ASSIGN_OR_RETURN(const RankAddress own, AddressOfInterface(NamedInterface()));
  return ListenForMembers(own);
}

void RankMeeting::WarnOfNoSecret() const {
  if (!identity_.secret.empty()) return;
  LogWarning(absl::StrCat(
      "the ranks meet without a secret: any program that reaches ", PlaceOf(launch_),
      " can take part in this run or end it; start all ranks with the same SPILLWAY_SECRET "
      "(`openssl rand -hex 32` makes one)"));
}

absl::StatusOr<std::string> RankMeeting::MissingRanks() {
  std::vector<std::string> missing;
  for (int rank = 1; rank < launch_.world; ++rank) {
    ASSIGN_OR_RETURN(const auto place, store_->Get(PlaceKey(rank)));
    const bool there = listener_ == nullptr || listener_->IsPresent(rank);
    if (!place.has_value() || !there) missing.push_back(std::to_string(rank));
  }
  if (missing.empty()) return std::string();
  return absl::StrCat(missing.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing, ", "));
}

// The meeting's outcome as far as this rank knows; "" if it has to wait.
absl::StatusOr<std::string> RankMeeting::Outcome() {
  if (StopSignal::received() != 0) return std::to_string(StopSignal::received());
  const bool late = MonotonicSeconds() >= wait_.deadline;
  if (listener_ == nullptr && !late) return std::string();  // rank 0 sees who has come
  ASSIGN_OR_RETURN(const std::string missing, MissingRanks());
  if (missing.empty()) return std::string(listener_ != nullptr ? kAllCame : "");
  if (!late) return std::string();
  return absl::StrCat(
      missing, " of ", launch_.world, " did not come to ", PlaceOf(launch_), " within ",
      timeout_seconds_,
      " s: look at their output, and whether their machines reach that address (or give "
      "them longer: --collective-timeout)");
}

// The first rank that knows the outcome publishes it, so that all continue or none does.
absl::Status RankMeeting::AwaitAll() {
  if (members_ != nullptr) {
    const RankAddress own = members_->address();
    RETURN_IF_ERROR(store_->Set(PlaceKey(launch_.rank), absl::StrCat(own.port(), " ", own.host())));
  }
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
  if (listener_ != nullptr) listener_->Begin();
  if (outcome == kAllCame) return absl::OkStatus();
  // The other ranks poll this process's table every 20 ms, and must be able to read the outcome.
  if (launch_.rank == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
  failed_ = true;
  RETURN_IF_ERROR(StopAs(outcome));
  return absl::UnavailableError(AsCleanLine(outcome));
}

RankListenerOptions RankMeeting::ListenerOptions(RankStore* store) const {
  RankListenerOptions listener;
  listener.identity = identity_;
  listener.rank = launch_.rank;
  listener.store = store;
  if (store != nullptr) {
    // A rank that is restarted in its place listens elsewhere.
    listener.left = [store](int rank) { (void)store->Erase(PlaceKey(rank)); };
  }
  // All ranks may connect at the same moment.
  listener.most_strangers = kMostRankStrangers + launch_.world;
  return listener;
}

// Opens a listener of this rank's own.
absl::Status RankMeeting::ListenForMembers(const RankAddress& own) {
  int error = 0;
  auto socket = BindRankSocket(own, &error);
  if (!socket.ok()) {
    return Annotate(socket.status(), absl::StrCat("rank ", launch_.rank, " can't listen at ",
                                                  own.host(), " for the other ranks"));
  }
  ASSIGN_OR_RETURN(members_, RankListener::Open(ListenerOptions(nullptr), *std::move(socket)));
  return absl::OkStatus();
}

// OK while no rank has failed or was stopped: such a rank will not connect.
absl::Status RankMeeting::OthersGoOn() {
  if (const int signal = StopSignal::received(); signal != 0) {
    (void)store_->SetIfAbsent(kStopKey, std::to_string(signal));
    return StopSignal::Check();
  }
  ASSIGN_OR_RETURN(const auto stopped, store_->Get(kStopKey));
  RETURN_IF_ERROR(StopAs(stopped.value_or("")));
  if (!SomebodyFailed(*store_)) return absl::OkStatus();
  return absl::UnavailableError("another rank has failed");
}

absl::StatusOr<RankZeroPlace> RankMeeting::PlaceOfRank(int rank) {
  ASSIGN_OR_RETURN(const auto told, store_->Get(PlaceKey(rank)));
  if (rank == 0 && !told.has_value()) return rank_zero_;
  const std::vector<std::string> words = absl::StrSplit(told.value_or(""), ' ');
  RankZeroPlace place;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &place.port)) {
    return absl::UnavailableError(absl::StrCat("rank ", rank, " has not told where it listens"));
  }
  place.host = words[1];
  return place;
}

absl::StatusOr<UniqueFd> RankMeeting::Call(const RankZeroPlace& place, int rank,
                                           const std::string& conversation) const {
  RankCallOptions call;
  call.identity = identity_;
  call.caller = {launch_.rank, conversation};
  call.to_rank = rank;
  call.host = place.host;
  call.port = place.port;
  return CallRank(call, wait_);
}

}  // namespace spillway
