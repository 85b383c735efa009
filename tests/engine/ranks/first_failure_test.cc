#include "engine/ranks/first_failure.h"

#include <string>
#include <thread>
#include <utility>

#include "engine/ranks/collectives.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(FirstFailure, TheRankThatHangsIsNamedAndNotOneThatWaitsForIt) {
  RankTable store;
  // Rank 0 waits for rank 2, and says so first; rank 2 waits for rank 1, which hangs.
  absl::Status on_0;
  std::thread rank_0(
      [&] { on_0 = AgreeOnFirstFailure(store, 0, 3, HasNotAnswered(/*rank=*/2, /*seconds=*/10)); });
  while (!store.Get("waiting/0")->has_value()) std::this_thread::yield();
  const absl::Status on_2 = AgreeOnFirstFailure(store, 2, 3, HasNotAnswered(1, 10));
  rank_0.join();
  EXPECT_EQ(std::string(on_2.message()).find("stopped because rank 1 has not answered for 10 s"),
            0u)
      << on_2;
  EXPECT_TRUE(IsBecauseOfAnother(on_0)) << on_0;
  EXPECT_NE(std::string(on_0.message()).find("rank 1 has not answered"), std::string::npos) << on_0;
}

TEST(FirstFailure, WhatIsNoConsequenceIsToldAtOnce) {
  RankTable store;
  EXPECT_FALSE(SomebodyFailed(store));
  const absl::Status own = absl::DataLossError("a wrong byte");
  EXPECT_EQ(AgreeOnFirstFailure(store, 1, 3, own), own);
  EXPECT_TRUE(SomebodyFailed(store));
  const absl::Status told =
      AgreeOnFirstFailure(store, 0, 3, absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(told, BecauseOf(1, CodeForOthers(own), "a wrong byte"));
}

// Whatever another process wrote there, what comes out is one line, an error, and of a rank.
TEST(FirstFailure, WhatIsToldIsNotBelieved) {
  const absl::Status own = absl::UnavailableError("rank 1 is gone");
  const auto told = [&own](const std::string& text) {
    RankTable store;
    EXPECT_TRUE(store.Set("failure", text).ok());
    return AgreeOnFirstFailure(store, 0, 3, own);
  };
  const absl::Status lines = told(
      "1\n4\nno room\nspillway: error: \x1b[2J\xc2\x9b"
      "1m\xe2\x80\xae\xff all is well\t");
  EXPECT_EQ(lines, absl::DeadlineExceededError("stopped because of rank 1: no room spillway: "
                                               "error: ?[2J?1m?? all is well "));
  EXPECT_EQ(told("1\n0\nfine").code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(told("1\n-7\nfine").code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(told("1\n99\nfine").code(), absl::StatusCode::kUnknown);
  // Of no rank, or no failure at all.
  for (const char* text : {"3\n4\nx", "-1\n4\nx", "1\n4", "", "x\n4\nx", "1\nx\nx"}) {
    EXPECT_EQ(told(text), AsConsequence(own)) << text;
  }
}

TEST(FirstFailure, AMessageWithoutEndIsCut) {
  RankTable store;
  const absl::Status own = absl::DataLossError(std::string(1 << 20, 'x'));
  EXPECT_EQ(AgreeOnFirstFailure(store, 1, 3, own), own);
  const absl::Status told = AgreeOnFirstFailure(store, 0, 3, absl::UnavailableError("gone"));
  EXPECT_TRUE(absl::IsDataLoss(told));
  EXPECT_LT(told.message().size(), 10'000);
}

// A table that is gone, and one that does not answer.
class DeadTable : public RankStore {
 public:
  explicit DeadTable(absl::Status status) : status_(std::move(status)) {}
  absl::Status Set(absl::string_view, absl::string_view) override { return status_; }
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view) override { return status_; }
  absl::StatusOr<std::string> SetIfAbsent(absl::string_view, absl::string_view) override {
    return status_;
  }
  absl::StatusOr<int64_t> Add(absl::string_view, int64_t) override { return status_; }
  absl::StatusOr<bool> Erase(absl::string_view) override { return status_; }

 private:
  const absl::Status status_;
};

TEST(FirstFailure, WithoutATableARankSaysWhatItSaw) {
  DeadTable gone(absl::UnavailableError("closed")), silent(absl::DeadlineExceededError("silent"));
  const absl::Status own = absl::UnavailableError("rank 2 is gone");
  EXPECT_EQ(AgreeOnFirstFailure(gone, 1, 3, own).message(),
            "stopped because rank 0 is gone (rank 2 is gone)");
  EXPECT_EQ(AgreeOnFirstFailure(silent, 1, 3, own), AsConsequence(own));
  const absl::Status cause = absl::DataLossError("a wrong byte");
  EXPECT_EQ(AgreeOnFirstFailure(gone, 1, 3, cause), cause);
  EXPECT_TRUE(SomebodyFailed(gone));
}

}  // namespace
}  // namespace spillway
