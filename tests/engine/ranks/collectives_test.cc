#include "engine/ranks/collectives.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/machine/memory_limits.h"
#include "io/base/status.h"
#include "tests/engine/ranks/thread_ranks.h"

namespace spillway {
namespace {

// What every rank is told after each has said its own.
std::vector<absl::Status> AgreeOn(const std::vector<absl::Status>& own) {
  ThreadRanks all(own.size());
  std::vector<absl::Status> agreed(own.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < own.size(); ++rank) {
    threads.emplace_back([&, rank] { agreed[rank] = Agree(*all.rank(rank), own[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  return agreed;
}

TEST(Agree, AllAreWell) {
  for (const absl::Status& status : AgreeOn({{}, {}, {}})) EXPECT_TRUE(status.ok());
}

TEST(Agree, TheFirstThatFailedIsNamedWithItsExitCode) {
  const absl::Status kinds[] = {WrongBytesError("a wrong byte"), absl::InvalidArgumentError("bad"),
                                DoesNotFitError("too small"),
                                absl::ResourceExhaustedError("no space left")};
  for (const absl::Status& status : kinds) {
    SCOPED_TRACE(status.message());
    const auto agreed = AgreeOn({{}, status, absl::AbortedError("later")});
    EXPECT_EQ(agreed[1].message(), status.message());
    for (const int rank : {0, 2}) {
      EXPECT_EQ(agreed[rank].message(),
                absl::StrCat("stopped because of rank 1: ", status.message()));
      EXPECT_TRUE(IsBecauseOfAnother(agreed[rank]));
    }
    for (const absl::Status& one : agreed) EXPECT_EQ(ExitCodeOf(one), ExitCodeOf(status));
  }
}

TEST(Agree, WhoseFailureItIsIsSaidOnce) {
  // A rank that knew of another's failure already passes it on.
  const absl::Status told = BecauseOf(2, CodeForOthers(WrongBytesError("a wrong byte")), "a byte");
  for (const absl::Status& status : AgreeOn({{}, told, {}})) {
    EXPECT_EQ(status.message(), "stopped because of rank 2: a byte");
    EXPECT_EQ(ExitCodeOf(status), 4);
  }
}

// As at the end of a start in which ranks have agreed before: rank 1 gets its own words back.
TEST(Agree, TheFailureItselfCountsBeforeWhatOthersWereToldOfIt) {
  const absl::Status failure = DoesNotFitError("too small");
  const absl::Status told = BecauseOf(1, CodeForOthers(failure), "too small");
  const auto agreed = AgreeOn({told, failure, told});
  EXPECT_EQ(agreed[1], failure);
  for (const int rank : {0, 2}) EXPECT_EQ(agreed[rank], told);
}

}  // namespace
}  // namespace spillway
