#include "engine/torch/first_failure.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/ranks/collectives.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;

constexpr char kFailureKey[] = "failure";
// Who has waited in vain for a rank knows more than who sees another leave because of that; it
// waits only for others that wait in vain.
constexpr milliseconds kPatienceOfWaiting{1500}, kPatience{4000};

std::string WaitingKey(int rank) { return absl::StrCat("waiting/", rank); }

void AwaitFailure(c10d::Store& store, int rank, const absl::Status& own) {
  const auto begin = std::chrono::steady_clock::now();
  const int awaited = NotAnswering(own);
  if (awaited >= 0) store.set(WaitingKey(rank), "1");
  while (!store.check({kFailureKey})) {
    // A rank that waits itself does not hang.
    const bool knows_most = awaited >= 0 && !store.check({WaitingKey(awaited)});
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited >= (knows_most ? kPatienceOfWaiting : kPatience)) return;
    std::this_thread::sleep_for(milliseconds(20));
  }
}

}  // namespace

bool SeesOthersGone(const absl::Status& own) {
  return absl::IsUnavailable(own) || absl::IsDeadlineExceeded(own) || absl::IsCancelled(own);
}

absl::Status AsConsequence(const absl::Status& own) {
  if (!SeesOthersGone(own)) return own;
  return absl::Status(own.code(), absl::StrCat("stopped because ", own.message()));
}

bool SomebodyFailed(c10d::Store& store) { return store.check({kFailureKey}); }

absl::Status AgreeOnFirstFailure(c10d::Store& store, int rank, const absl::Status& own) {
  try {
    if (SeesOthersGone(own)) AwaitFailure(store, rank, own);
    const std::string text = absl::StrCat(rank, "\n", CodeForOthers(own), "\n", own.message());
    const std::string first = store.compareSet(kFailureKey, "", text);
    const std::vector<std::string> parts = absl::StrSplit(first, absl::MaxSplits('\n', 2));
    int first_rank = rank;
    int64_t code = 0;
    if (parts.size() == 3 && absl::SimpleAtoi(parts[0], &first_rank) && first_rank != rank &&
        absl::SimpleAtoi(parts[1], &code)) {
      return BecauseOf(first_rank, code, parts[2]);
    }
  } catch (const std::exception&) {
    if (!SeesOthersGone(own)) return own;
    // And its store with it. Whom this rank saw leave may have left because of that.
    return absl::Status(own.code(),
                        absl::StrCat("stopped because rank 0 is gone (", own.message(), ")"));
  }
  return AsConsequence(own);
}

}  // namespace spillway
