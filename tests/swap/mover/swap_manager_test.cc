#include "swap/mover/swap_manager.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/base/mutex.h"
#include "swap/plan/planner.h"
#include "tests/swap/mover/swap_training.h"

namespace spillway {
namespace {

class SwapManagerTest : public SwapTraining {};

TEST_F(SwapManagerTest, EveryPlacementBudgetAndModeGivesTheOraclesBits) {
  constexpr std::pair<UpdateMode, MeasurePasses> kModes[] = {
      {UpdateMode::kImmediate, {}}, {UpdateMode::kDeferred, {}}, {UpdateMode::kDeferred, {1, 1}}};
  RunShape shape = SmallShape();
  uint32_t seed = 1;
  for (const auto& [update, measures] : kModes) {
    shape.measures = measures;
    for (TierChoice tier :
         {TierChoice::kDevice, TierChoice::kHost, TierChoice::kNvme, TierChoice::kAuto}) {
      const uint64_t smallest = SmallestHost(RequestFor(shape, update, tier, 0));
      for (uint64_t extra : {0, 20000, 60000, 10000000}) {
        SCOPED_TRACE(testing::Message()
                     << "update " << int(update) << " measures " << measures.all() << " tier "
                     << int(tier) << " extra " << extra);
        PlanRequest request = RequestFor(shape, update, tier, smallest + extra);
        request.device_bytes = 10000000;
        auto run = SwapRun::Create(shape, request, directory(), {});
        ASSERT_TRUE(run.ok()) << run.status();
        ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
        Oracle oracle(shape);
        Train(**run, oracle, shape, update, 12, seed++);
      }
    }
  }
}

TEST_F(SwapManagerTest, RandomModelsAndBudgetsGiveTheOraclesBits) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    RunShape shape = RandomShape(random);
    const UpdateMode update = random() % 3 == 0 ? UpdateMode::kImmediate : UpdateMode::kDeferred;
    shape.measures = {static_cast<int>(random() % 3), static_cast<int>(random() % 2)};
    const TierChoice choices[] = {TierChoice::kAuto, TierChoice::kHost, TierChoice::kNvme};
    PlanRequest request = RequestFor(shape, update, TierChoice::kAuto, 0);
    request.weights = choices[random() % 3];
    request.optimizer = choices[random() % 3];
    request.device_bytes = 0;
    request.rounded_sums = RandomRoundedSums(shape, random);
    if (random() % 2) {
      request.activations = choices[random() % 3];
      request.activation_bytes.resize(shape.units.size());
      for (uint64_t& bytes : request.activation_bytes) bytes = (random() % 4) * (random() % 9000);
    }
    const uint64_t smallest = SmallestHost(request);
    request.host_bytes = smallest + (random() % 3) * (random() % 200000);
    request.device_bytes = random() % 20000;  // inputs of some units, or none
    // The largest input is there while it is computed with.
    for (uint64_t bytes : request.activation_bytes) {
      request.input_in_flight_bytes = std::max(request.input_in_flight_bytes, bytes + 4096);
    }
    request.deferred_share = (random() % 4) / 3.0;
    SwapManagerOptions options;
    options.io.kind = random() % 2 ? IoEngineOptions::Kind::kThreads : IoEngineOptions::Kind::kAuto;
    options.workers = 1 + random() % 3;
    options.in_place_bytes = random() % 2 ? 0 : 300000;
    auto run = SwapRun::Create(shape, request, directory(), options, 1 + random() % 3);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
    Oracle oracle(shape);
    Train(**run, oracle, shape, update, 8, seed);
  }
}

TEST_F(SwapManagerTest, AFlippedBitOnStorageEndsTheRunBeforeTheOptimizerSeesIt) {
  const RunShape shape = SmallShape();
  PlanRequest request = RequestFor(shape, UpdateMode::kDeferred, TierChoice::kNvme, 0);
  request.host_bytes = SmallestHost(request);
  auto run = SwapRun::Create(shape, request, directory(), {});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
  const TileLocation place = (*run)->store()->CurrentTile(2, 0, 1, 2);
  const int fd = open(place.file->path().c_str(), O_RDWR);
  char byte;
  ASSERT_EQ(pread(fd, &byte, 1, place.offset_bytes + 77), 1);
  byte ^= 1;
  ASSERT_EQ(pwrite(fd, &byte, 1, place.offset_bytes + 77), 1);
  close(fd);
  Oracle oracle(shape);
  SwapManager& manager = (*run)->manager();
  manager.Enqueue(Program::kTrain);
  ASSERT_EQ((*run)->RunOps(9, true, oracle), absl::OkStatus());
  ASSERT_TRUE(manager.AwaitGradients().ok());
  UpdateScalars scalars;
  scalars.step = 1;
  manager.AnnounceUpdate(scalars);
  const absl::Status status = manager.Flush();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("u2"));
  EXPECT_EQ(manager.stats().tiles_updated < 8, true);
  // It stays failed, and says the same.
  EXPECT_EQ(manager.Flush(), status);
}

TEST_F(SwapManagerTest, AFlippedBitInASpilledInputEndsTheRunBeforeItsBackward) {
  const RunShape shape = SmallShape();
  PlanRequest request = RequestFor(shape, UpdateMode::kDeferred, TierChoice::kHost, 0);
  request.activations = TierChoice::kNvme;
  request.activation_bytes = {0, 20000, 20000, 20000, 0};
  request.input_in_flight_bytes = 20480;
  request.host_bytes = SmallestHost(request);
  auto run = SwapRun::Create(shape, request, directory(), {});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
  Oracle oracle(shape);
  SwapManager& manager = (*run)->manager();
  manager.Enqueue(Program::kTrain);
  ASSERT_EQ((*run)->RunOps(4, true, oracle), absl::OkStatus());
  // Written, and not wanted back before two more operations.
  const TileLocation place = (*run)->store()->ActivationPiece(1, 0);
  const int fd = open(place.file->path().c_str(), O_RDWR);
  char byte = 0;
  while (byte == 0) ASSERT_EQ(pread(fd, &byte, 1, place.offset_bytes + 70), 1);
  byte ^= 1;
  ASSERT_EQ(pwrite(fd, &byte, 1, place.offset_bytes + 70), 1);
  close(fd);
  const absl::Status status = (*run)->RunOps(5, true, oracle);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("plane activation"));
}

TEST_F(SwapManagerTest, AnUpdateThatFailsBecomesTheStatusOfTheNextCall) {
  const RunShape shape = SmallShape();
  PlanRequest request = RequestFor(shape, UpdateMode::kImmediate, TierChoice::kNvme, 0);
  request.host_bytes = SmallestHost(request) + 100000;
  auto run = SwapRun::Create(shape, request, directory(), {});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
  (*run)->tiles().fail_at_step = 1;
  Oracle oracle(shape);
  SwapManager& manager = (*run)->manager();
  manager.Enqueue(Program::kTrain);
  UpdateScalars scalars;
  scalars.step = 1;
  manager.AnnounceUpdate(scalars);
  absl::Status status = (*run)->RunOps(9, true, oracle);
  if (status.ok()) status = manager.Flush();
  EXPECT_EQ(status.message(), "told to fail");
}

TEST_F(SwapManagerTest, ImmediateUpdatesRunInBackwardAndDeferredOnesInTheNextForward) {
  const RunShape shape = SmallShape();
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    PlanRequest request = RequestFor(shape, update, TierChoice::kNvme, 0);
    request.host_bytes = SmallestHost(request) + 1000000;
    auto run = SwapRun::Create(shape, request, directory(), {});
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
    Oracle oracle(shape);
    Train(**run, oracle, shape, update, 3, 7);
    std::vector<std::string> updates;
    for (const std::string& event : (*run)->manager().TakeEvents()) {
      if (event.rfind("update ", 0) == 0) updates.push_back(event);
    }
    ASSERT_GE(updates.size(), 5u);
    const std::vector<std::string> first(updates.begin(), updates.begin() + 5);
    if (update == UpdateMode::kImmediate) {
      EXPECT_THAT(first,
                  testing::ElementsAre("update 4", "update 3", "update 2", "update 1", "update 0"));
    } else {
      EXPECT_THAT(first,
                  testing::ElementsAre("update 0", "update 1", "update 2", "update 3", "update 4"));
      // The updated weights went straight into the forward.
      EXPECT_GT((*run)->manager().stats().update_filled_bytes, 0u);
    }
  }
}

// Deferred: the updates of a step run in the next forward, so its commit ends there, and
// the backward that follows does not wait for the disk. Immediate: it ends in the forward.
TEST_F(SwapManagerTest, ACommitOverlapsTheNextStepAndHoldsOnlyLaterUpdates) {
  const RunShape shape = SmallShape();
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    for (TierChoice tier : {TierChoice::kHost, TierChoice::kNvme}) {
      SCOPED_TRACE(testing::Message() << "update " << int(update) << " tier " << int(tier));
      PlanRequest request = RequestFor(shape, update, tier, 0);
      request.host_bytes = SmallestHost(request) + 1000000;
      auto run = SwapRun::Create(shape, request, directory(), {});
      ASSERT_TRUE(run.ok()) << run.status();
      ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
      const StepSchedule schedule = ScheduleOf(shape, update);
      Oracle oracle(shape);
      SwapManager& manager = (*run)->manager();
      for (int step = 1; step <= 3; ++step) {
        UpdateScalars scalars;
        scalars.step = step;
        manager.Enqueue(Program::kTrain);
        if (update == UpdateMode::kImmediate) manager.AnnounceUpdate(scalars);
        ASSERT_EQ((*run)->RunOps(schedule.ops.size(), true, oracle), absl::OkStatus());
        oracle.Step(schedule, step, false);
        if (update == UpdateMode::kDeferred) {
          ASSERT_TRUE(manager.AwaitGradients().ok());
          manager.AnnounceUpdate(scalars);
        }
        if (step == 1) {
          ASSERT_EQ(manager.StartCommit(manifest(), {1, "{}"}), absl::OkStatus());
        }
      }
      ASSERT_EQ(manager.Flush(), absl::OkStatus());
      ASSERT_EQ(manager.AwaitCommit(), absl::OkStatus());
      ASSERT_EQ((*run)->Compare(oracle), absl::OkStatus());
      // "update N": the N-th of the run, five a step.
      int updates = 0, at_commit = -1, at_end = -1;
      for (const std::string& event : manager.TakeEvents()) {
        updates += event.rfind("update ", 0) == 0;
        if (event == "commit") at_commit = updates;
        if (event == "committed") at_end = updates;
      }
      EXPECT_EQ(updates, 15);
      EXPECT_LE(at_commit, 5);
      EXPECT_EQ(at_end, 5);  // all of step 1, none of step 2
      std::filesystem::remove_all(directory());
      std::filesystem::create_directories(directory());
    }
  }
}

TEST_F(SwapManagerTest, ACommitWithoutRoomForItsManifestIsLostAndTheRunGoesOn) {
  const RunShape shape = SmallShape();
  PlanRequest request = RequestFor(shape, UpdateMode::kDeferred, TierChoice::kNvme, 0);
  request.host_bytes = SmallestHost(request);
  auto run = SwapRun::Create(shape, request, directory(), {});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
  Oracle oracle(shape);
  SwapManager& manager = (*run)->manager();
  bool durable = false;
  const std::string nowhere = directory() + "/none/manifest";
  ASSERT_EQ(manager.StartCommit(nowhere, {1, "{}"}, [&] { durable = true; }), absl::OkStatus());
  EXPECT_THAT(std::string(manager.AwaitCommit().message()), testing::HasSubstr(nowhere));
  EXPECT_EQ(manager.AwaitNoCommit(), absl::OkStatus());
  EXPECT_FALSE(durable);
  // With steps and commits that the oracle checks.
  Train(**run, oracle, shape, UpdateMode::kDeferred, 6, 1);
  EXPECT_EQ(manager.AwaitCommit(), absl::OkStatus());
}

// Nothing was renamed: the commit before is whole.
TEST_F(SwapManagerTest, ACommitThatCannotBeWrittenDownIsLostAndTheRunGoesOn) {
  const RunShape shape = SmallShape();
  PlanRequest request = RequestFor(shape, UpdateMode::kDeferred, TierChoice::kNvme, 0);
  request.host_bytes = SmallestHost(request);
  auto run = SwapRun::Create(shape, request, directory(), {});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
  Oracle oracle(shape);
  SwapManager& manager = (*run)->manager();
  ASSERT_EQ(manager.StartCommit(manifest(), {1, "not UTF-8: \xff"}), absl::OkStatus());
  EXPECT_THAT(std::string(manager.AwaitCommit().message()), testing::HasSubstr("UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(manifest()));
  Train(**run, oracle, shape, UpdateMode::kDeferred, 6, 1);
  EXPECT_EQ(manager.AwaitCommit(), absl::OkStatus());
}

// Also where units that live in memory need not wait for the tile buffers of those on disk.
TEST_F(SwapManagerTest, FirstTilesBeginInOrder) {
  constexpr int kWorkers = 6;
  int mixed = 0;
  for (uint32_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    RunShape shape = RandomShape(random);
    shape.in_place = false;
    shape.units[0] += 20 * shape.tile_parameters;
    PlanRequest request = RequestFor(shape, UpdateMode::kDeferred, TierChoice::kAuto, 0);
    request.host_bytes = SmallestHost(request) + random() % 400000;
    SwapManagerOptions options;
    options.workers = kWorkers;
    auto run = SwapRun::Create(shape, request, directory(), options);
    ASSERT_TRUE(run.ok()) << run.status();
    const SwapPlan& plan = (*run)->manager().plan();
    int on_disk = 0, in_memory = 0, tiles = 0;
    std::vector<int> first_tile;  // of each unit, in the order of all
    for (int unit = 0; unit < plan.layout.num_units(); ++unit) {
      ++(plan.placements[unit].any_nvme() ? on_disk : in_memory);
      first_tile.push_back(tiles);
      tiles += plan.layout.NumTiles(unit);
    }
    mixed += on_disk > 0 && in_memory > 0;
    Mutex mutex;
    int begun = 0;
    int ahead = 0;  // the most tiles before one that had not begun yet
    ASSERT_EQ((*run)->manager().Initialize([&](const TileView& tile) {
      {
        MutexLock lock(mutex);
        ahead = std::max(ahead, first_tile[tile.unit] + tile.tile - begun++);
      }
      // Until buffers run out, and those that need none might overtake.
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      return absl::OkStatus();
    }),
              absl::OkStatus());
    EXPECT_EQ(begun, tiles);
    // Each of the other workers may be about to begin one.
    EXPECT_LT(ahead, kWorkers);
  }
  EXPECT_GE(mixed, 3);
}

TEST_F(SwapManagerTest, ACommittedRunContinuesFromItsCommit) {
  const RunShape shape = SmallShape();
  const StepSchedule schedule = ScheduleOf(shape, UpdateMode::kDeferred);
  for (TierChoice tier : {TierChoice::kHost, TierChoice::kNvme}) {
    PlanRequest request = RequestFor(shape, UpdateMode::kDeferred, tier, 0);
    request.host_bytes = SmallestHost(request);
    commits_ = false;
    Oracle oracle(shape);
    {
      auto run = SwapRun::Create(shape, request, directory(), {});
      ASSERT_TRUE(run.ok()) << run.status();
      ASSERT_EQ((*run)->Initialize(), absl::OkStatus());
      Train(**run, oracle, shape, UpdateMode::kDeferred, 3, 3);
      ASSERT_EQ((*run)->manager().Commit(manifest(), {3, "{}"}), absl::OkStatus());
      // One more step that no commit names.
      Oracle later = oracle;
      Train(**run, later, shape, UpdateMode::kDeferred, 1, 4);
    }
    CommitRecord record;
    auto store = SwapStore::Open(manifest(), false, {std::vector<bool>(5, true)}, &record);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(record.step, 3u);
    auto plan = PlanSwaps(request);
    ASSERT_TRUE(plan.ok());
    MemoryBudget budget("test", uint64_t{1} << 30);
    auto host = *Arena::Create(plan->host_arena_bytes, &budget);
    auto device = *Arena::Create(plan->device_arena_bytes, &budget);
    StubTiles tiles;
    auto manager = SwapManager::Create(*plan, store->get(), host.get(), device.get(), &tiles, {});
    ASSERT_TRUE(manager.ok());
    ASSERT_EQ((*manager)->LoadResident(), absl::OkStatus());
    ASSERT_EQ((*manager)->ReadState(0, 2,
                                    [&](const TileView& tile) {
                                      EXPECT_TRUE(oracle.Equals(tile));
                                      return absl::OkStatus();
                                    }),
              absl::OkStatus());
  }
}

using SwapManagerDeathTest = SwapManagerTest;

TEST_F(SwapManagerDeathTest, MisuseIsTheCallersMistake) {
  const RunShape shape = SmallShape();
  const auto with_manager = [&](const std::function<void(SwapManager&)>& use) {
    const PlanRequest request =
        RequestFor(shape, UpdateMode::kImmediate, TierChoice::kNvme, 10000000);
    auto run = SwapRun::Create(shape, request, directory(), {});
    SPILLWAY_CHECK(run.ok());
    SPILLWAY_CHECK((*run)->Initialize().ok());
    use((*run)->manager());
  };
  // Nothing is enqueued, and nothing has begun.
  EXPECT_DEATH(with_manager([](SwapManager& manager) { (void)manager.BeginOp(); }),
               "!programs_.empty");
  EXPECT_DEATH(with_manager([](SwapManager& manager) {
                 manager.Enqueue(Program::kTrain);
                 manager.EndOp();
                 (void)manager.BeginOp();
               }),
               "op_runs_");
  // One operation at a time.
  EXPECT_DEATH(with_manager([](SwapManager& manager) {
                 manager.Enqueue(Program::kTrain);
                 for (int i = 0; i < 2; ++i) (void)manager.BeginOp();
               }),
               "!op_runs_");
  // A commit is of whole programs.
  EXPECT_DEATH(with_manager([&](SwapManager& manager) {
                 manager.Enqueue(Program::kTrain);
                 (void)manager.BeginOp();
                 (void)manager.Commit(directory() + "/manifest", {});
               }),
               "between_programs");
  EXPECT_DEATH(with_manager([](SwapManager& manager) {
                 manager.Enqueue(Program::kTrain);
                 (void)manager.BeginOp();
                 (void)manager.AbandonRunning();
                 manager.Enqueue(Program::kTrain);
                 (void)manager.Flush();
               }),
               "!gave_up_");
  // The first operation reads no such tile, and nothing of the second unit.
  EXPECT_DEATH(with_manager([](SwapManager& manager) {
                 manager.Enqueue(Program::kTrain, {0, {0, 1000}});
                 (void)manager.Flush();
               }),
               "NumTiles");
  EXPECT_DEATH(with_manager([](SwapManager& manager) {
                 manager.Enqueue(Program::kTrain, {1, {0}});
                 (void)manager.Flush();
               }),
               "used.end");
}

}  // namespace
}  // namespace spillway
