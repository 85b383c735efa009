#include "engine/ranks/patient_ranks.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "tests/engine/ranks/thread_ranks.h"

namespace spillway {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Whose exchanges time out, as Gloo's do.
class ImpatientRanks : public Collectives {
 public:
  ImpatientRanks(Collectives* ranks, milliseconds timeout) : ranks_(*ranks), timeout_(timeout) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  absl::Status Exchange(absl::Span<const char* const> send, absl::Span<char* const> receive,
                        uint64_t bytes) override {
    const auto began = steady_clock::now();
    const absl::Status status = ranks_.Exchange(send, receive, bytes);
    if (status.ok() && steady_clock::now() - began > timeout_) return HasNotAnswered(0, 1);
    return status;
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
  const milliseconds timeout_;
};

constexpr int kRanks = 3;
constexpr milliseconds kTimeout(1000), kLate(2500);

// `run` on every rank, in a conversation that times out.
void OnAll(const std::function<void(Collectives& world, Collectives& beats)>& run) {
  ThreadRanks world(kRanks), beats(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      ImpatientRanks own(world.rank(rank), kTimeout), own_beats(beats.rank(rank), kTimeout);
      run(own, own_beats);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(PatientRanks, WaitLongerThanTheTimeout) {
  OnAll([](Collectives& world, Collectives& beats) {
    PatientRanks patient(&world, &beats, milliseconds(10));
    // The first one exports.
    if (world.rank() == 0) std::this_thread::sleep_for(kLate);
    const auto counts = AllGatherCount(patient, 10 + world.rank());
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_EQ(*counts, (std::vector<int64_t>{10, 11, 12}));
    // And again, and comes to an end later than the others.
    if (world.rank() == 0) std::this_thread::sleep_for(kLate);
    EXPECT_EQ(Agree(patient, absl::OkStatus()), absl::OkStatus());
    if (world.rank() == 0) std::this_thread::sleep_for(kLate);
  });
}

TEST(PatientRanks, WithoutThemTheSameTimesOut) {
  OnAll([](Collectives& world, Collectives&) {
    if (world.rank() == 0) std::this_thread::sleep_for(kLate);
    const absl::Status waited = AllGatherCount(world, 0).status();
    if (world.rank() > 0) {
      EXPECT_TRUE(absl::IsDeadlineExceeded(waited)) << waited;
    }
  });
}

// Its own error is told by other ways.
TEST(PatientRanks, ARankThatLeavesIsNotWaitedFor) {
  OnAll([](Collectives& world, Collectives& beats) {
    PatientRanks patient(&world, &beats, milliseconds(10));
    if (world.rank() == 1) return;
    const absl::Status status = AllGatherCount(patient, 0).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  });
}

TEST(PatientRanks, ARankWhoseBeatsEndEndsTheOthersWait) {
  ThreadRanks world(kRanks), beats(kRanks);
  beats.FailAfter(2, 3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      PatientRanks patient(world.rank(rank), beats.rank(rank), milliseconds(10));
      if (rank == 2) {
        std::this_thread::sleep_for(kTimeout);
        return;
      }
      const absl::Status status = AllGatherCount(patient, 0).status();
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace spillway
