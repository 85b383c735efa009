#include "engine/ranks/rank_call.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// A listener answers at once; after this time the connection is given up and tried again.
constexpr double kHandshakeSeconds = 10;
constexpr double kPauseSeconds = 0.1;   // between two attempts
constexpr double kPatienceSeconds = 5;  // then a warning that the name is not known

class RankCall {
 public:
  RankCall(const RankCallOptions& options, const RankWait& wait)
      : options_(options), wait_(wait), late_(MonotonicSeconds() + kPatienceSeconds) {}

  absl::StatusOr<UniqueFd> Make() {
    while (true) {
      absl::StatusOr<UniqueFd> made = TryOnce();
      if (made.ok() || !absl::IsUnavailable(made.status())) return made;
      const double pause_ends = MonotonicSeconds() + kPauseSeconds;
      do {
        const absl::Status goes_on = wait_.Check();
        if (absl::IsDeadlineExceeded(goes_on)) return NotReached(made.status());
        RETURN_IF_ERROR(goes_on);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      } while (MonotonicSeconds() < pause_ends);
    }
  }

 private:
  std::string Other() const {
    return absl::StrCat("rank ", options_.to_rank, " at ", options_.host, ":", options_.port);
  }

  absl::Status NotReached(const absl::Status& last) const {
    const int rank = options_.caller.rank;
    if (!name_known_) return last;
    return absl::UnavailableError(absl::StrCat(
        "rank ", rank, " does not reach ", Other(), " (", last.message(), "): is rank ",
        options_.to_rank,
        " running there, and may this machine connect to it (MASTER_ADDR, MASTER_PORT, "
        "--collective-timeout)?"));
  }

  // kUnavailable: try again.
  absl::StatusOr<UniqueFd> TryOnce() {
    const auto found = ResolveRankHost(options_.host, options_.port, wait_);
    name_known_ = name_known_ || found.ok();
    if (!found.ok()) {
      if (!absl::IsUnavailable(found.status())) return found.status();
      const absl::Status unknown = HasNoAddress(options_.to_rank, options_.host, found.status());
      if (!warned_ && MonotonicSeconds() >= late_) {
        LogWarning(absl::StrCat(unknown.message(), "; it is waited for"));
        warned_ = true;
      }
      return unknown;
    }
    absl::StatusOr<UniqueFd> made = absl::UnavailableError("it has no address");
    for (const RankAddress& address : *found) {
      made = TryAddress(address);
      if (made.ok() || !absl::IsUnavailable(made.status())) break;
    }
    return made;
  }

  absl::StatusOr<UniqueFd> TryAddress(const RankAddress& address) {
    RankWait wait = wait_;
    wait.deadline = std::min(wait.deadline, MonotonicSeconds() + kHandshakeSeconds);
    int error = 0;
    absl::StatusOr<UniqueFd> made = ConnectRankSocket(address, wait, &error);
    if (error != 0 && address.is_loopback()) RETURN_IF_ERROR(CheckLoopback(address));
    if (made.ok()) {
      if (const absl::Status status = ShakeHands(made->get(), wait); !status.ok()) made = status;
    }
    // Another attempt may follow if only this attempt's deadline has passed.
    if (absl::IsDeadlineExceeded(made.status())) {
      return absl::UnavailableError(made.status().message());
    }
    return made;
  }

  absl::Status ShakeHands(int fd, const RankWait& wait) {
    const RankIdentity& identity = options_.identity;
    const std::string own = MakeHello();
    RETURN_IF_ERROR(SendToRank(fd, own, wait));
    ASSIGN_OR_RETURN(const std::string theirs, ReceiveFromRank(fd, kHelloBytes, wait));
    if (!IsHello(theirs)) {
      return absl::UnavailableError("what listens there is no rank of this version of Spillway");
    }
    const std::string proof = MakeProof(identity, own, theirs, options_.caller);
    RETURN_IF_ERROR(SendToRank(fd, proof, wait));
    ASSIGN_OR_RETURN(const std::string answer, ReceiveFromRank(fd, kAnswerBytes, wait));
    switch (CheckAnswer(identity, own, theirs, proof, answer)) {
      case Admission::kAdmitted:
        return absl::OkStatus();
      case Admission::kOtherSecret:
        return absl::PermissionDeniedError(
            absl::StrCat("rank ", options_.caller.rank, " and ", Other(),
                         " have different secrets: start all ranks of a run with the same "
                         "SPILLWAY_SECRET, or all without"));
      case Admission::kOtherJob:
        return absl::UnavailableError(
            "rank 0 of another job, or of an earlier attempt, listens "
            "there");
      case Admission::kOtherWorld:
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", options_.caller.rank, " was started as one of ", identity.world,
                         " ranks, and ", Other(), " as one of another number: correct WORLD_SIZE"));
      case Admission::kThereAlready:
        return absl::AlreadyExistsError(absl::StrCat(
            "rank ", options_.caller.rank, " is there already, connected to ", Other(),
            ": it was started twice, or its last start still runs; this one ends, and the run "
            "goes on undisturbed"));
      case Admission::kTooLate:
        return absl::UnavailableError("the run there has begun without this rank, or ends");
      case Admission::kUnexpected:
        return absl::InternalError(absl::StrCat(Other(), " does not expect rank ",
                                                options_.caller.rank, " for ",
                                                options_.caller.conversation));
    }
    return absl::InternalError("no such admission");
  }

  const RankCallOptions& options_;
  const RankWait& wait_;
  const double late_;
  bool warned_ = false, name_known_ = false;
};

}  // namespace

absl::Status HasNoAddress(int rank, const std::string& host, const absl::Status& why) {
  return absl::UnavailableError(
      absl::StrCat("rank ", rank, "'s machine, ", host,
                   " (MASTER_ADDR) has no address that this machine knows (", why.message(),
                   "): give MASTER_ADDR a name or an address that all machines know"));
}

absl::StatusOr<UniqueFd> CallRank(const RankCallOptions& options, const RankWait& wait) {
  return RankCall(options, wait).Make();
}

absl::StatusOr<std::string> RemoteRankStore::AskOnce(const std::string& request) {
  RankWait wait = {.deadline = MonotonicSeconds() + timeout_seconds_};
  if (interrupted_) wait.interrupted = interrupted_;
  const int fd = connection_.get();
  RETURN_IF_ERROR(SendToRank(fd, request, wait));
  ASSIGN_OR_RETURN(const std::string header, ReceiveFromRank(fd, kStoreReplyHeader, wait));
  ASSIGN_OR_RETURN(const size_t bytes, StoreReplyBody(header));
  ASSIGN_OR_RETURN(const std::string text, ReceiveFromRank(fd, bytes, wait));
  return header + text;
}

absl::StatusOr<std::optional<std::string>> RemoteRankStore::Ask(StoreOperation operation,
                                                                absl::string_view key,
                                                                absl::string_view value) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(broken_);
  const absl::StatusOr<std::string> reply = AskOnce(MakeStoreRequest(operation, key, value));
  if (!reply.ok()) {
    broken_ = reply.status();
    return broken_;
  }
  return ReadStoreReply(*reply);
}

absl::Status RemoteRankStore::Set(absl::string_view key, absl::string_view value) {
  return Ask(StoreOperation::kSet, key, value).status();
}

absl::StatusOr<std::optional<std::string>> RemoteRankStore::Get(absl::string_view key) {
  return Ask(StoreOperation::kGet, key, "");
}

absl::StatusOr<std::string> RemoteRankStore::SetIfAbsent(absl::string_view key,
                                                         absl::string_view desired) {
  ASSIGN_OR_RETURN(const std::optional<std::string> text,
                   Ask(StoreOperation::kSetIfAbsent, key, desired));
  return text.value_or("");
}

absl::StatusOr<int64_t> RemoteRankStore::Add(absl::string_view key, int64_t amount) {
  ASSIGN_OR_RETURN(const std::optional<std::string> text,
                   Ask(StoreOperation::kAdd, key, absl::StrCat(amount)));
  int64_t number = 0;
  if (absl::SimpleAtoi(text.value_or(""), &number)) return number;
  return absl::DataLossError("rank 0's answer is no number");
}

absl::StatusOr<bool> RemoteRankStore::Erase(absl::string_view key) {
  ASSIGN_OR_RETURN(const std::optional<std::string> text, Ask(StoreOperation::kErase, key, ""));
  return text.has_value();
}

}  // namespace spillway
