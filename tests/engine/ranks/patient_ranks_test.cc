#include "engine/ranks/patient_ranks.h"

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/ranks/thread_ranks.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;

constexpr int kRanks = 3;

// Calls `before` with the number of each exchange, from 1.
class WatchedRanks : public Collectives {
 public:
  WatchedRanks(Collectives* ranks, std::function<void(int)> before)
      : ranks_(*ranks), before_(std::move(before)) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  absl::Status Exchange(absl::Span<const char* const> send, absl::Span<char* const> receive,
                        uint64_t bytes) override {
    before_(++exchanges_);
    return ranks_.Exchange(send, receive, bytes);
  }
  absl::Status Send(int to, const char* data, uint64_t bytes) override {
    return ranks_.Send(to, data, bytes);
  }
  absl::Status Receive(int from, char* data, uint64_t bytes) override {
    return ranks_.Receive(from, data, bytes);
  }
  uint64_t sent_bytes() const override { return ranks_.sent_bytes(); }
  void Abort() override { ranks_.Abort(); }

 private:
  Collectives& ranks_;
  const std::function<void(int)> before_;
  std::atomic<int> exchanges_{0};
};

void OnAll(const std::function<void(int rank)>& run) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back([&, rank] { run(rank); });
  for (std::thread& thread : threads) thread.join();
}

void Await(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(milliseconds(1));
}

// However long the first one takes, which exports: nobody waits in an exchange, that may time out.
TEST(PatientRanks, AnExchangeBeginsWhenAllHaveComeToIt) {
  ThreadRanks world(kRanks), beats(kRanks);
  std::atomic<int> came{0}, first_beats{0};
  OnAll([&](int rank) {
    WatchedRanks own(world.rank(rank), [&](int n) { EXPECT_GE(came.load(), n * kRanks); });
    WatchedRanks own_beats(beats.rank(rank), [&, rank](int n) {
      if (rank == 0) first_beats = n;
    });
    PatientRanks patient(&own, &own_beats, milliseconds(1));
    for (int n = 1; n <= 2; ++n) {
      if (rank == 0) Await([&, until = first_beats + 5] { return first_beats >= until; });
      ++came;
      const auto counts = AllGatherCount(patient, 10 * n + rank);
      ASSERT_TRUE(counts.ok()) << counts.status();
      EXPECT_EQ(*counts, (std::vector<int64_t>{10 * n, 10 * n + 1, 10 * n + 2}));
    }
    // And the first comes to its end later than the others.
    if (rank == 0) Await([&, until = first_beats + 5] { return first_beats >= until; });
  });
}

TEST(PatientRanks, WithoutThemTheOthersWaitInIt) {
  ThreadRanks world(kRanks);
  std::atomic<int> came{0}, waiting{0};
  OnAll([&](int rank) {
    WatchedRanks own(world.rank(rank), [&, rank](int) {
      if (rank > 0 && came < kRanks) ++waiting;
    });
    if (rank == 0) Await([&] { return waiting == kRanks - 1; });
    ++came;
    EXPECT_TRUE(AllGatherCount(own, 0).ok());
  });
}

// Its own error is told by other ways.
TEST(PatientRanks, ARankThatLeavesIsNotWaitedFor) {
  ThreadRanks world(kRanks), beats(kRanks);
  OnAll([&](int rank) {
    PatientRanks patient(world.rank(rank), beats.rank(rank), milliseconds(1));
    if (rank == 1) return;
    const absl::Status status = AllGatherCount(patient, 0).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  });
}

TEST(PatientRanks, ARankWhoseBeatsEndEndsTheOthersWait) {
  ThreadRanks world(kRanks), beats(kRanks);
  beats.FailAfter(2, 3);
  std::atomic<int> ended{0};
  OnAll([&](int rank) {
    PatientRanks patient(world.rank(rank), beats.rank(rank), milliseconds(1));
    if (rank == 2) return Await([&] { return ended == kRanks - 1; });
    const absl::Status status = AllGatherCount(patient, 0).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    ++ended;
  });
}

}  // namespace
}  // namespace spillway
