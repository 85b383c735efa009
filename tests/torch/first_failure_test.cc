#include "engine/torch/first_failure.h"

#include <string>
#include <thread>

#include "engine/ranks/collectives.h"
#include "gtest/gtest.h"
#include "torch/csrc/distributed/c10d/HashStore.hpp"

namespace spillway {
namespace {

TEST(FirstFailure, TheRankThatHangsIsNamedAndNotOneThatWaitsForIt) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  // Rank 0 waits for rank 2, and says so first; rank 2 waits for rank 1, which hangs.
  absl::Status on_0;
  std::thread rank_0(
      [&] { on_0 = AgreeOnFirstFailure(*store, 0, HasNotAnswered(/*rank=*/2, /*seconds=*/10)); });
  store->get("waiting/0");  // blocks until it is there
  const absl::Status on_2 = AgreeOnFirstFailure(*store, 2, HasNotAnswered(1, 10));
  rank_0.join();
  EXPECT_EQ(std::string(on_2.message()).find("stopped because rank 1 has not answered for 10 s"),
            0u)
      << on_2;
  EXPECT_TRUE(IsBecauseOfAnother(on_0)) << on_0;
  EXPECT_NE(std::string(on_0.message()).find("rank 1 has not answered"), std::string::npos) << on_0;
}

TEST(FirstFailure, WhatIsNoConsequenceIsToldAtOnce) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_FALSE(SomebodyFailed(*store));
  const absl::Status own = absl::DataLossError("a wrong byte");
  EXPECT_EQ(AgreeOnFirstFailure(*store, 1, own), own);
  EXPECT_TRUE(SomebodyFailed(*store));
  const absl::Status told =
      AgreeOnFirstFailure(*store, 0, absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(told, BecauseOf(1, CodeForOthers(own), "a wrong byte"));
}

}  // namespace
}  // namespace spillway
