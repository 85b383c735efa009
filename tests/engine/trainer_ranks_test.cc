// Trainers of several ranks, which are threads here: what their rows tell of the others.
#include "engine/estimate/run_plan.h"
#include "engine/metrics.h"
#include "engine/ranks/collective_traffic.h"
#include "gmock/gmock.h"
#include "tests/device/quiet_machine.h"
#include "tests/engine/ranks/thread_ranks.h"
#include "tests/engine/trainer_testing.h"

namespace spillway {
namespace {

class TrainerRanks : public TrainerTest {
 protected:
  TrainOptions Sharded(int ranks, double clip) const {
    TrainOptions options = Options(absl::StrCat("ranks", ranks, "-", clip));
    options.ranks = options.shard_group_size = ranks;
    options.clip = clip;
    options.steps = 6;
    options.no_commit = true;
    // Rings of several ranks in one process are races to ThreadSanitizer (sharded_step_test.cc).
    options.io.kind = IoEngineOptions::Kind::kThreads;
    return options;
  }

  // The rows and the last lines of rank 0.
  std::vector<nlohmann::json> RunAll(const TrainOptions& options, std::chrono::microseconds delay,
                                     std::string* speed = nullptr) {
    ThreadRanks world(options.ranks), group(options.ranks);
    world.SetDelay(delay);
    group.SetDelay(delay);
    StopSignal signals;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < options.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const RankGroups groups = {.world = world.rank(rank), .group = group.rank(rank)};
        EXPECT_EQ(RunRank(options, rank, groups, rank == 0 ? speed : nullptr), absl::OkStatus());
        world.rank(rank)->Abort();
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<nlohmann::json> rows;
    EXPECT_TRUE(
        ReadRows(options.output + "/metrics.jsonl", [&](const nlohmann::json& row, int64_t) {
          rows.push_back(row);
        }).ok());
    return rows;
  }

  // Bytes that a rank sends for weights and gradients in a step.
  uint64_t SentInAStep(const TrainOptions& options) const {
    const auto plan = PlanRun(model_, options, {.memory = {1 << 20}});
    EXPECT_TRUE(plan.ok()) << plan.status();
    return CollectiveBytes(plan->shards->schedule, plan->shards->sums).total_bytes();
  }

 private:
  absl::Status RunRank(TrainOptions options, int rank, const RankGroups& groups,
                       std::string* speed) {
    RunStorage::FirstRank first;
    first.output = options.output;
    options.rank = rank;
    options.output = RankOutput(options.output, rank);
    absl::StatusOr<std::unique_ptr<RunStorage>> storage = absl::UnknownError("");
    for (bool turn_of_first : {true, false}) {
      if (turn_of_first == (rank == 0)) {
        storage = RunStorage::Open(options, rank > 0 ? &first : nullptr);
      }
      const auto opened = AllGatherCount(*groups.world, 0);
      if (!opened.ok()) return opened.status();
    }
    if (!storage.ok()) return storage.status();
    StubCompute compute(model_, options.dtype);
    compute.op_milliseconds = op_milliseconds_;
    MemoryBudget device("device", options.device_memory_bytes);
    auto trainer =
        Trainer::Create(options, model_, storage->get(), &compute, &device, nullptr, groups);
    if (!trainer.ok()) return trainer.status();
    CountingWeights weights;
    if (auto status = (*trainer)->Start(&weights); !status.ok()) return status;
    const auto result = (*trainer)->Run();
    if (result.ok() && speed != nullptr) *speed = result->speed;
    return result.status();
  }
};

constexpr std::chrono::microseconds kNoDelay{0};

// Labels, losses and stops in every step, and a deferred update's norm, finite or not.
TEST_F(TrainerRanks, RowsTellWhatWasSent) {
  for (int ranks : {2, 3}) {
    for (double clip : {1.0, 0.0}) {
      SCOPED_TRACE(absl::StrCat(ranks, " ", clip));
      TrainOptions options = Sharded(ranks, clip);
      options.eval_every = 2;  // what evaluations send is in no row
      const std::vector<nlohmann::json> rows = RunAll(options, kNoDelay);
      ASSERT_EQ(rows.size(), 6u);
      const uint64_t agreed = (clip > 0 ? 5 : 3) * sizeof(int64_t) * (ranks - 1);
      const uint64_t expected = SentInAStep(options) + agreed;
      uint64_t sum = 0;
      for (const nlohmann::json& row : rows) {
        const uint64_t sent = row["bytes"]["collective"].get<uint64_t>();
        // Immediate updates: a step's last sums may be on their way when its row ends.
        if (clip > 0 && row["step"] > 1) {
          EXPECT_EQ(sent, expected) << row["step"];
        }
        sum += sent;
      }
      // The first looks for a signal twice.
      EXPECT_EQ(sum, 6 * expected + sizeof(int64_t) * (ranks - 1));
    }
  }
}

TEST_F(TrainerRanks, SlowExchangesAreWhatAStepWaitsForAndIsBusyWith) {
  if (!MachineIsQuiet()) GTEST_SKIP() << "other work takes the processor";
  for (double clip : {1.0, 0.0}) {
    SCOPED_TRACE(clip);
    std::string speed;
    double seconds = 0, busy = 0, waited = 0, others = 0, computed = 0;
    for (const nlohmann::json& row :
         RunAll(Sharded(2, clip), std::chrono::milliseconds(5), &speed)) {
      seconds += row["seconds"].get<double>();
      busy += row["busy_seconds"]["collective"].get<double>();
      computed += row["busy_seconds"]["compute"].get<double>();
      waited += row["stall_seconds"]["collective"].get<double>();
      for (const char* other : {"disk", "update", "copy"}) {
        others += row["stall_seconds"][other].get<double>();
      }
    }
    EXPECT_GT(busy, 0.8 * seconds);
    EXPECT_LE(busy, 1.01 * seconds);
    EXPECT_GT(waited, 0.7 * seconds);
    EXPECT_GT(waited, 4 * others);
    EXPECT_LE(waited + others + computed, 1.01 * seconds);
    EXPECT_THAT(speed, testing::HasSubstr("ranks "));
    EXPECT_THAT(speed, testing::HasSubstr("a step to other ranks"));
  }
}

TEST_F(TrainerRanks, OneRankSendsNothing) {
  TrainOptions options = Options("alone");
  TrainResult result;
  ASSERT_TRUE(Train(options, &result).ok());
  EXPECT_TRUE(ReadRows(options.output + "/metrics.jsonl", [&](const nlohmann::json& row, int64_t) {
                EXPECT_EQ(row["bytes"]["collective"], 0);
                EXPECT_EQ(row["stall_seconds"]["collective"], 0.0);
                EXPECT_EQ(row["busy_seconds"]["collective"], 0.0);
              }).ok());
  EXPECT_THAT(result.speed, testing::Not(testing::HasSubstr("ranks")));
}

}  // namespace
}  // namespace spillway
