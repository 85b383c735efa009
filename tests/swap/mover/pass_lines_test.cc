#include "swap/mover/pass_lines.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "swap/forecast/virtual_disk.h"
#include "swap/forecast/virtual_machine.h"
#include "swap/forecast/virtual_workers.h"
#include "swap/mover/mover.h"
#include "swap/plan/planner.h"

namespace spillway {
namespace {

Pass PassOf(PassKind kind, int unit, int64_t version = 1, int tiles = 4) {
  Pass pass;
  pass.kind = kind;
  pass.unit = unit;
  pass.version = version;
  pass.num_tiles = tiles;
  return pass;
}

// The units whose passes are looked at, in order; `begins` says of which all tiles can begin.
std::string LooksAt(PassLines& lines, const std::function<bool(const Pass&)>& begins) {
  std::string units;
  lines.BeginTiles([&](Pass& pass) {
    absl::StrAppend(&units, pass.unit, " ");
    if (begins(pass)) pass.next_tile = pass.num_tiles;
  });
  return units;
}

constexpr auto kAll = [](const Pass&) { return true; };
constexpr auto kNone = [](const Pass&) { return false; };

TEST(PassLines, OnlyTheFirstOfALineThatWaitsIsLookedAt) {
  PassLines lines(1000);
  for (int unit = 0; unit < 1000; ++unit) {
    lines.Add(PassOf(PassKind::kUpdate, unit));
    lines.Add(PassOf(PassKind::kRound, unit));
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(LooksAt(lines, kNone), "0 0 ");
  EXPECT_EQ(lines.looks(), 20);
  // Those that have begun are not looked at again.
  LooksAt(lines, kAll);
  EXPECT_EQ(lines.looks(), 20 + 2000);
  EXPECT_EQ(LooksAt(lines, kAll), "");
}

TEST(PassLines, PassesFollowEachOtherAcrossLinesAndOvertakeOnlyThoseThatWait) {
  PassLines lines(8);
  const auto add = [&](Pass pass, bool streamed, bool in_tile_buffers) {
    pass.streamed = streamed;
    pass.needs_tile_buffer = in_tile_buffers;
    lines.Add(pass);
  };
  add(PassOf(PassKind::kUpdate, 0), false, true);
  add(PassOf(PassKind::kRound, 1), false, false);
  add(PassOf(PassKind::kUpdate, 2), true, false);
  add(PassOf(PassKind::kSave, 3), false, true);
  add(PassOf(PassKind::kUpdate, 4), false, true);
  add(PassOf(PassKind::kUpdate, 5), true, true);
  add(PassOf(PassKind::kSave, 6), false, false);
  const auto all_but_updates = [](const Pass& pass) { return !pass.updates(); };
  EXPECT_EQ(LooksAt(lines, all_but_updates), "0 1 2 3 6 ");
  EXPECT_EQ(LooksAt(lines, [](const Pass& pass) { return pass.streamed; }), "0 2 5 ");
  EXPECT_EQ(LooksAt(lines, kAll), "0 4 ");
}

TEST(PassLinesDeathTest, APassIsRoutedBeforeItIsAddedAndWholeBeforeItIsRemoved) {
  PassLines lines(2);
  EXPECT_DEATH(lines.Add(Pass()), "num_tiles >= 0");
  Pass& pass = lines.Add(PassOf(PassKind::kUpdate, 0));
  EXPECT_DEATH(lines.Remove(pass), "all_begun");
  EXPECT_DEATH(pass.BeginWith({0, 1, 2, 3, 4}), "tiles.size");
  LooksAt(lines, kAll);
  lines.Remove(pass);
}

// At the end of a backward, which has completed the last units' gradients first.
TEST(PassLines, UpdatesThatWaitAreSortedByTheForwardsNeed) {
  PassLines lines(5);
  Buffer sums;
  const auto add = [&](int unit, bool begun) {
    Pass pass = PassOf(PassKind::kUpdate, unit);
    pass.sums = &sums;
    pass.begun = begun;
    lines.Add(pass);
  };
  add(4, true);
  for (const int unit : {3, 2, 1, 0}) add(unit, false);
  lines.SortUpdates({0, 2, 1, 3, 4});
  lines.Add(PassOf(PassKind::kUpdate, 1, 2));  // deferred
  EXPECT_EQ(LooksAt(lines, kAll), "4 0 2 1 3 1 ");
}

TEST(PassLines, WhatTheForwardNeedsLateGoesBehindAllOthersAndWhereTheyWait) {
  PassLines lines(4);
  Pass embedding = PassOf(PassKind::kUpdate, 0);
  embedding.deferred = true;
  embedding.BeginWith({1, 3});
  lines.Add(embedding);
  lines.Add(PassOf(PassKind::kUpdate, 1));
  lines.Add(PassOf(PassKind::kRound, 2));
  std::string tiles;
  const auto begin = [&](int most) {
    std::string units;
    lines.BeginTiles([&](Pass& pass) {
      absl::StrAppend(&units, pass.unit, " ");
      for (int i = 0; i < most && !pass.all_begun(); ++i) {
        if (pass.MayGoLast() && !pass.goes_last) return;
        if (pass.unit == 0) absl::StrAppend(&tiles, pass.NextTile(), " ");
        ++pass.next_tile;
      }
    });
    return units;
  };
  EXPECT_EQ(begin(1), "0 2 ");      // it has to wait, and unit 1 behind it
  EXPECT_EQ(begin(2), "0 1 2 0 ");  // then it makes way, and has its turn where the others wait
  EXPECT_EQ(begin(4), "1 2 ");
  EXPECT_EQ(tiles, "1 3 0 2 ");
}

TEST(PassLines, APassWithoutTilesIsLookedAtWhenOneOfItsUnitHasEnded) {
  PassLines lines(3);
  Pass& before = lines.Add(PassOf(PassKind::kUpdate, 1, 1));
  lines.Add(PassOf(PassKind::kUpdate, 1, 2, 0));
  lines.Add(PassOf(PassKind::kUpdate, 1, 3, 0));
  Pass& other = lines.Add(PassOf(PassKind::kUpdate, 2, 1));
  EXPECT_EQ(LooksAt(lines, kAll), "1 2 ");
  EXPECT_EQ(lines.TakeEmpty(kNone), nullptr);
  int64_t looks = lines.looks();
  lines.Remove(other);
  EXPECT_EQ(lines.TakeEmpty(kAll), nullptr);
  EXPECT_EQ(lines.looks(), looks);
  lines.Remove(before);
  for (const int version : {2, 3}) {
    const Pass* const pass = lines.TakeEmpty(kAll);
    ASSERT_NE(pass, nullptr);
    EXPECT_EQ(pass->version, version);
    lines.Remove(*pass);
  }
  EXPECT_TRUE(lines.empty());
}

TEST(PassLines, KnowsWhatIsLeft) {
  PassLines lines(2);
  EXPECT_EQ(lines.newest_version(), std::nullopt);
  Pass& round = lines.Add(PassOf(PassKind::kRound, 0, 7));
  Pass& save = lines.Add(PassOf(PassKind::kSave, 1));
  Pass& older = lines.Add(PassOf(PassKind::kUpdate, 0, 7));
  Pass& newer = lines.Add(PassOf(PassKind::kUpdate, 0, 8));
  LooksAt(lines, kAll);
  EXPECT_TRUE(lines.AnyRound(0));
  EXPECT_FALSE(lines.AnyRound(1));
  EXPECT_TRUE(lines.AnySave());
  EXPECT_EQ(lines.oldest_version(), 7);
  EXPECT_EQ(lines.newest_version(), 8);
  for (Pass* pass : {&round, &save, &older}) lines.Remove(*pass);
  EXPECT_FALSE(lines.AnyRound(0));
  EXPECT_FALSE(lines.AnySave());
  EXPECT_EQ(lines.oldest_version(), 8);
  lines.Remove(newer);
  EXPECT_EQ(lines.oldest_version(), std::nullopt);
}

// Steps of a model of so many units, whose updates all wait in line: how often a pass is looked at,
// for every tile.
double LooksPerTile(int units) {
  PlanRequest request;
  std::vector<UnitLayout> layout;
  ScheduleModel model;
  for (int unit = 0; unit < units; ++unit) {
    layout.push_back({absl::StrCat("u", unit), 4 * 2048});
    model.borrows.push_back({});
  }
  request.layout = StateLayout(layout, {{Plane::kWeight, 4}, {Plane::kMomentum, 4}}, 4, 2048);
  request.schedule = BuildTrainSchedule(model, UpdateMode::kDeferred);
  request.weights = request.optimizer = TierChoice::kNvme;
  request.has_storage = true;
  request.host_bytes = request.device_bytes = uint64_t{1} << 40;
  const SwapPlan plan = *PlanSwaps(request);

  StepClock clock;
  clock.disk = {1e9, 1e9, 1e9};
  clock.update_bytes_per_second = 1e10;
  VirtualMachine machine(clock);
  VirtualWorkers workers(plan, clock, &machine);
  MemoryBudget budget("none", uint64_t{1} << 20);
  const auto arena = *Arena::Create(4096, &budget);
  const auto store = SwapStore::WithoutFiles(plan.layout, plan.spill_room);
  SwapManagerOptions options;
  options.executor = &workers;
  Mover mover(plan, store.get(), arena.get(), arena.get(), nullptr, options,
              std::make_unique<VirtualDisk>(&machine));
  using Done = MoverThread::Done;
  // The disk has nothing to wait for when one has come to its end.
  const auto call = [&](const std::function<void(Done)>& task) {
    const absl::Status status = mover.thread().Call([&](Done done) {
      task([&mover, done](const absl::Status& status) {
        done(status);
        mover.thread().Post([] {});
      });
    });
    EXPECT_TRUE(status.ok()) << status;
  };
  GradientTotal total;
  UpdateScalars scalars;
  for (int step = 0; step < 3; ++step) {
    mover.thread().Post([&] { mover.gate().Enqueue(Program::kTrain); });
    for (size_t op = 0; op < plan.schedule.ops.size(); ++op) {
      OpBuffers buffers;
      call([&](Done done) { mover.gate().Request(&buffers, done); });
      mover.thread().Post([&] { mover.gate().Finish(); });
    }
    call([&](Done done) { mover.passes().AwaitGradients(&total, done); });
    ++scalars.step;
    mover.thread().Post([&, scalars] { mover.passes().Announce(scalars); });
  }
  call([&](Done done) { mover.passes().Flush(done); });
  EXPECT_EQ(mover.stats().tiles_updated, 3 * 4 * units);
  return static_cast<double>(mover.passes().looks()) / (3 * 4 * units);
}

TEST(PassLines, AWakeUpOfTheMoverLooksAtNoMorePassesWithMoreUnits) {
  EXPECT_LE(LooksPerTile(256), 1.2 * LooksPerTile(32));
}

}  // namespace
}  // namespace spillway
