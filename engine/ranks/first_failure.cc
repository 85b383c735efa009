#include "engine/ranks/first_failure.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/ranks/collectives.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;

constexpr char kFailureKey[] = "failure";
// A rank that waited in vain for another knows more than one that only saw another leave, so it
// speaks earlier; it waits only for other ranks that waited in vain.
constexpr milliseconds kPatienceOfWaiting{1500}, kPatience{4000};
// Bound of a message for other ranks; the store takes no longer values.
constexpr size_t kMostMessageBytes = 8192;

std::string WaitingKey(int rank) { return absl::StrCat("waiting/", rank); }

absl::StatusOr<bool> HasKey(RankStore& store, const std::string& key) {
  ASSIGN_OR_RETURN(const std::optional<std::string> value, store.Get(key));
  return value.has_value();
}

absl::Status AwaitFailure(RankStore& store, int rank, const absl::Status& own) {
  const auto begin = std::chrono::steady_clock::now();
  const int awaited = NotAnswering(own);
  if (awaited >= 0) RETURN_IF_ERROR(store.Set(WaitingKey(rank), "1"));
  while (true) {
    ASSIGN_OR_RETURN(const bool told, HasKey(store, kFailureKey));
    if (told) return absl::OkStatus();
    // A rank that waits for another does not hang itself.
    bool knows_most = awaited >= 0;
    if (knows_most) {
      ASSIGN_OR_RETURN(const bool waits_itself, HasKey(store, WaitingKey(awaited)));
      knows_most = !waits_itself;
    }
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited >= (knows_most ? kPatienceOfWaiting : kPatience)) return absl::OkStatus();
    std::this_thread::sleep_for(milliseconds(20));
  }
}

absl::StatusOr<std::string> TellFirst(RankStore& store, int rank, const absl::Status& own) {
  if (SeesOthersGone(own)) RETURN_IF_ERROR(AwaitFailure(store, rank, own));
  return store.SetIfAbsent(kFailureKey, absl::StrCat(rank, "\n", CodeForOthers(own), "\n",
                                                     own.message().substr(0, kMostMessageBytes)));
}

}  // namespace

bool SeesOthersGone(const absl::Status& own) {
  return absl::IsUnavailable(own) || absl::IsDeadlineExceeded(own) || absl::IsCancelled(own);
}

absl::Status AsConsequence(const absl::Status& own) {
  if (!SeesOthersGone(own)) return own;
  return absl::Status(own.code(), absl::StrCat("stopped because ", own.message()));
}

bool SomebodyFailed(RankStore& store) { return HasKey(store, kFailureKey).value_or(true); }

absl::Status AgreeOnFirstFailure(RankStore& store, int rank, int world, const absl::Status& own) {
  const absl::StatusOr<std::string> first = TellFirst(store, rank, own);
  if (!first.ok() && SeesOthersGone(own) && !absl::IsDeadlineExceeded(first.status())) {
    // Rank 0's table is gone, too. A rank that this one saw leave may have left for the same
    // reason.
    return absl::Status(own.code(),
                        absl::StrCat("stopped because rank 0 is gone (", own.message(), ")"));
  }
  if (!first.ok()) return AsConsequence(own);
  const std::vector<std::string> parts = absl::StrSplit(*first, absl::MaxSplits('\n', 2));
  int first_rank = rank;
  int64_t code = 0;
  if (parts.size() == 3 && absl::SimpleAtoi(parts[0], &first_rank) && first_rank != rank &&
      first_rank >= 0 && first_rank < world && absl::SimpleAtoi(parts[1], &code)) {
    return BecauseOf(first_rank, code, parts[2]);
  }
  return AsConsequence(own);
}

}  // namespace spillway
