// Trainings on the swap manager for tests: steps with an evaluation, a flush and a commit here and
// there, held against the oracle all the way.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "swap/mover/whole_store.h"
#include "swap/plan/planner.h"
#include "tests/swap/mover/swap_run.h"

namespace spillway {

inline RunShape SmallShape() {
  RunShape shape;
  shape.units = {3 * 2048, 2048, 2 * 2048, 2048, 2048};
  shape.borrows = {{}, {}, {}, {}, {0}};
  return shape;
}

// Two to seven units, some of which borrow from an earlier one. Of every second model some units
// are frozen, and some have frozen parameters beside those that are trained; of every second such
// one these lie in the model's files.
inline RunShape RandomShape(std::mt19937& random) {
  RunShape shape;
  const int units = 2 + random() % 6;
  for (int u = 0; u < units; ++u) {
    shape.units.push_back((1 + random() % 4) * 2048);
    std::vector<int> borrows;
    if (u > 0 && random() % 4 == 0) borrows.push_back(random() % u);
    shape.borrows.push_back(borrows);
  }
  if (random() % 2) return shape;
  shape.frozen.assign(units, false);
  shape.in_place = random() % 2;
  const int trained = random() % units;  // at least this one is
  for (int u = 0; u < units; ++u) {
    const int choice = random() % 3;
    if (choice == 0 && u != trained) shape.frozen[u] = true;
    if (choice == 1) {
      shape.borrows[u].push_back(static_cast<int>(shape.units.size()));
      shape.units.push_back((1 + random() % 4) * 2048);
      shape.frozen.push_back(true);
    }
  }
  return shape;
}

inline PlanRequest RequestFor(const RunShape& shape, UpdateMode update, TierChoice tier,
                              uint64_t host_bytes) {
  PlanRequest request;
  request.layout = LayoutOf(shape);
  request.schedule = ScheduleOf(shape, update);
  request.weights = request.optimizer = tier;
  request.has_storage = true;
  request.host_bytes = host_bytes;
  request.device_bytes = host_bytes;
  return request;
}

// Of some units, as if they had at most two terms.
inline std::vector<bool> RandomRoundedSums(const RunShape& shape, std::mt19937& random) {
  std::vector<bool> rounded;
  for (size_t u = 0; u < shape.units.size(); ++u) rounded.push_back(random() % 2 == 0);
  return rounded;
}

inline uint64_t SmallestHost(PlanRequest request) {
  uint64_t min_host = 0, min_device = 0;
  request.host_bytes = request.device_bytes = uint64_t{1} << 40;
  EXPECT_TRUE(PlanSwaps(request, &min_host, &min_device).ok());
  return min_host;
}

inline int64_t TrainedTiles(const SwapPlan& plan, const RunShape& shape) {
  int64_t tiles = 0;
  for (int unit = 0; unit < plan.layout.num_units(); ++unit) {
    if (!shape.Frozen(unit)) tiles += plan.layout.NumTiles(unit);
  }
  return tiles;
}

class SwapTraining : public testing::Test {
 protected:
  // Runs `steps` steps with an evaluation, a flush and a commit here and there.
  void Train(SwapRun& run, Oracle& oracle, const RunShape& shape, UpdateMode update, int steps,
             uint32_t seed) {
    std::mt19937 random(seed);
    const StepSchedule schedule = ScheduleOf(shape, update);
    const int evaluate_ops = shape.borrows.size();
    SwapManager& manager = run.manager();
    bool enqueued = false;
    int64_t applied = 0;
    FirstRead next_read;
    const auto enqueue = [&] {
      next_read = {};
      if (random() % 2) {
        const std::vector<int>& units = schedule.ops.front().weights;
        next_read.unit = units[random() % units.size()];
        for (int tile = 0; tile < manager.plan().layout.NumTiles(next_read.unit); ++tile) {
          if (random() % 2) next_read.tiles.push_back(tile);
        }
      }
      manager.Enqueue(Program::kTrain, next_read);
    };
    for (int step = 1; step <= steps; ++step) {
      if (!enqueued) enqueue();
      enqueued = false;
      const FirstRead first_read = next_read;
      UpdateScalars scalars;
      scalars.step = applied + 1;
      if (update == UpdateMode::kImmediate) {
        manager.AnnounceUpdate(scalars);
        if (step < steps && random() % 4 != 0) {
          enqueue();
          enqueued = true;
        }
      }
      ASSERT_EQ(run.RunOps(schedule.ops.size(), true, oracle, first_read), absl::OkStatus());
      bool skip = false;
      if (update == UpdateMode::kDeferred) {
        skip = random() % 5 == 0;
        auto total = manager.AwaitGradients();
        ASSERT_TRUE(total.ok()) << total.status();
        scalars.skip = skip;
        for (int measure = 0; measure < schedule.measures.all() && !skip; ++measure) {
          ASSERT_EQ(manager.MeasureUpdate(scalars, measure), absl::OkStatus());
          ASSERT_EQ(run.tiles().tiles_measured.exchange(0), TrainedTiles(manager.plan(), shape));
        }
        manager.AnnounceUpdate(scalars);
        EXPECT_EQ(total->sum_of_squares, oracle.Step(schedule, scalars.step, skip));
      } else {
        oracle.Step(schedule, scalars.step, false);
      }
      if (!skip) ++applied;
      if (random() % 3 == 0) {
        if (enqueued) manager.AbandonQueued();
        enqueued = false;
        ASSERT_EQ(manager.Flush(), absl::OkStatus());
        if (random() % 2 == 0) {
          manager.Enqueue(Program::kEvaluate);
          ASSERT_EQ(run.RunOps(evaluate_ops, false, oracle), absl::OkStatus());
        }
        if (random() % 2 == 0) {
          ASSERT_EQ(run.Compare(oracle), absl::OkStatus());
        }
      }
      if (commits_ && run.store() && random() % 2 == 0) {
        CheckLastCommit(manager);
        ASSERT_EQ(manager.StartCommit(manifest(), {uint64_t(step), "{}"}, [this] { ++durable_; }),
                  absl::OkStatus());
        committed_.emplace(step, oracle);
        ++started_;
      }
    }
    if (enqueued) manager.AbandonQueued();
    ASSERT_EQ(manager.Flush(), absl::OkStatus());
    ASSERT_EQ(run.Compare(oracle), absl::OkStatus());
    CheckLastCommit(manager);
    EXPECT_EQ(durable_, started_);
  }

  // After steps that went on meanwhile, the last commit is that of its own step.
  void CheckLastCommit(SwapManager& manager) {
    if (!committed_) return;
    ASSERT_EQ(manager.AwaitCommit(), absl::OkStatus());
    CommitRecord record;
    auto store = SwapStore::Open(manifest(), /*read_only=*/true, {}, &record);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(record.step, committed_->first);
    ASSERT_EQ(ReadStore(**store, 0, 2,
                        [&](const TileView& tile) {
                          EXPECT_TRUE(committed_->second.Equals(tile));
                          return absl::OkStatus();
                        }),
              absl::OkStatus());
    committed_.reset();
  }

  std::string manifest() const { return directory() + "/manifest"; }

  bool commits_ = true;
  std::optional<std::pair<uint64_t, Oracle>> committed_;  // what the last commit must hold
  int started_ = 0;
  std::atomic<int> durable_ = 0;

  std::string directory() const { return testing::TempDir() + "/swap_training"; }
  void SetUp() override {
    std::filesystem::remove_all(directory());
    std::filesystem::create_directories(directory());
  }
  void TearDown() override { std::filesystem::remove_all(directory()); }
};

}  // namespace spillway
