#include "swap/forecast/step_simulation.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"
#include "tests/swap/plan/gpt_like.h"

namespace spillway {
namespace {

PlanRequest TwelveLayers(UpdateMode update, TierChoice tier, int layers = 12) {
  PlanRequest request = GptLikeRequest(update, tier, layers, 700 * 2048);
  request.device_bytes = 0;
  return request;
}

// Compute of 1 in a forward and 3 in a backward for each layer, in `unit_seconds`.
StepClock Clock(const PlanRequest& request, double unit_seconds, double disk_rate,
                double update_rate) {
  StepClock clock;
  clock.disk = {disk_rate, disk_rate, disk_rate};
  clock.update_bytes_per_second = update_rate;
  for (const StepOp& op : request.schedule.ops) {
    clock.op_seconds.push_back(unit_seconds * (op.kind == OpKind::kForward ? 1 : 3));
  }
  return clock;
}

uint64_t Smallest(const PlanRequest& request) {
  return SmallestBudgets(request)->front().host_bytes;
}

TEST(StepSimulation, AllInMemoryAStepTakesItsComputeAndItsUpdatesWhereCoresAreShared) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    const PlanRequest request = TwelveLayers(update, TierChoice::kHost);
    const SwapPlan plan = PlanOf(request);
    StepClock clock = Clock(request, 0.1, 1, 1e9);
    const double compute = Sum(clock.op_seconds);
    EXPECT_NEAR(SimulateStep(plan, clock).seconds, compute, 0.02 * compute);
    EXPECT_EQ(SimulateStep(plan, clock).disk_seconds, 0);
    // Rounding and update touch 32 bytes a parameter.
    clock.update_bytes_per_second = 32.0 * plan.layout.TotalPaddedParameters() / (0.2 * compute);
    EXPECT_NEAR(SimulateStep(plan, clock).seconds, compute, 0.04 * compute);
    clock.shared_cores = 0.5;
    EXPECT_NEAR(SimulateStep(plan, clock).seconds, 1.1 * compute, 0.04 * compute);
  }
}

// Compute's threads wait for the one whose core a worker has, be the others' cores free or not.
TEST(StepSimulation, WorkersThatAreBusyOneByOneKeepComputeUpAsMuchEach) {
  const PlanRequest request = TwelveLayers(UpdateMode::kImmediate, TierChoice::kNvme);
  const SwapPlan plan = PlanOf(request);
  StepClock clock = Clock(request, 0.1, 1, 1);
  const double compute = Sum(clock.op_seconds), updates = 0.1 * compute;
  // The disk takes half of compute's time, and updates a fifth of the disk's.
  const double rate = (plan.traffic.read_bytes + plan.traffic.written_bytes) / (0.5 * compute);
  clock.disk = {rate, rate, rate};
  clock.update_bytes_per_second = 32.0 * plan.layout.TotalPaddedParameters() / updates;
  clock.shared_cores = 1;
  const double one = SimulateStep(plan, clock).seconds;
  clock.workers = 2;
  const double two = SimulateStep(plan, clock).seconds;
  EXPECT_GT(two - one, 0.3 * updates);
  EXPECT_LE(two - one, updates);
}

TEST(StepSimulation, ChecksOfWhatOperationsReadTakeTheirTimeOfComputesCores) {
  // The first half of the layers is frozen.
  PlanRequest request = TwelveLayers(UpdateMode::kImmediate, TierChoice::kNvme);
  std::vector<UnitLayout> units = {{"embedding", 1 << 20, /*frozen=*/true}};
  ScheduleModel model{{{}}, {false}};
  for (int layer = 0; layer < 12; ++layer) {
    units.push_back({absl::StrCat("h.", layer), 700 * 2048, /*frozen=*/layer < 6});
    model.borrows.push_back({});
    model.trains.push_back(layer >= 6);
  }
  request.layout = StateLayout(std::move(units), request.layout.planes(), 2, 65536);
  request.schedule = BuildTrainSchedule(model, UpdateMode::kImmediate);
  const SwapPlan plan = PlanOf(request);
  double read = 0, frozen = 0;
  for (const WeightStay& stay : plan.weight_stays) {
    if (!plan.FetchedFromStore(stay)) continue;
    read += static_cast<double>(stay.span.bytes);
    if (plan.layout.frozen(stay.unit)) frozen += static_cast<double>(stay.span.bytes);
  }
  ASSERT_GT(frozen, 0);
  ASSERT_GT(read, frozen);
  StepClock clock = Clock(request, 0.1, 1e15, 1e15);
  clock.shared_cores = 1;
  const double without = SimulateStep(plan, clock).seconds;
  clock.check_bytes_per_second = read / (0.2 * without);
  EXPECT_NEAR(SimulateStep(plan, clock).seconds, 1.2 * without, 0.03 * without);
  // Of what is read in the model's files alone.
  clock.place_bytes_per_second = frozen / (0.3 * without);
  EXPECT_NEAR(SimulateStep(plan, clock).seconds, 1.2 * without, 0.03 * without);
  for (int unit = 0; unit < plan.layout.num_units(); ++unit) {
    clock.in_place.push_back(plan.layout.frozen(unit));
  }
  EXPECT_NEAR(SimulateStep(plan, clock).seconds, 1.5 * without, 0.03 * without);
}

// An embedding that is a third of the model, whose update stands alone at the turn of two steps.
TEST(StepSimulation, AStepThatBeginsWithSomeRowsWaitsForFewerUpdates) {
  PlanRequest request = GptLikeRequest(UpdateMode::kImmediate, TierChoice::kNvme, 8, 700 * 2048,
                                       /*storage=*/true, 4000 * 2048);
  request.device_bytes = 0;
  request.host_bytes = 2 * Smallest(request);
  const SwapPlan plan = PlanOf(request);
  const double bytes = plan.traffic.read_bytes + plan.traffic.written_bytes;
  StepClock clock = Clock(request, 1.0 / 32, 1.2 * bytes, 1e15);
  const double compute = Sum(clock.op_seconds);
  const double whole = SimulateStep(plan, clock).seconds;
  ASSERT_GT(whole, 1.1 * compute);
  clock.first_read_share = 0.1;
  EXPECT_LT(SimulateStep(plan, clock).seconds, compute + 0.5 * (whole - compute));
}

TEST(StepSimulation, OneSlowResourceIsWhatAStepTakes) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    const PlanRequest request = TwelveLayers(update, TierChoice::kNvme);
    const SwapPlan plan = PlanOf(request);
    const double bytes = plan.traffic.read_bytes + plan.traffic.written_bytes;
    const SimulatedStep slow_disk = SimulateStep(plan, Clock(request, 1e-6, 1e9, 1e15));
    EXPECT_NEAR(slow_disk.seconds, bytes / 1e9, 0.05 * bytes / 1e9);
    EXPECT_NEAR(slow_disk.disk_seconds, slow_disk.seconds, 0.05 * slow_disk.seconds);
    const StepClock computing = Clock(request, 1, 1e15, 1e15);
    const SimulatedStep slow_compute = SimulateStep(plan, computing);
    EXPECT_NEAR(slow_compute.seconds, Sum(computing.op_seconds), 0.01);
    EXPECT_NEAR(slow_compute.stall_seconds, 0, 0.01);
    const SimulatedStep slow_update = SimulateStep(plan, Clock(request, 1e-6, 1e15, 1e9));
    const double touched = 32.0 * plan.layout.TotalPaddedParameters() / 1e9;
    EXPECT_NEAR(slow_update.seconds, touched, 0.05 * touched);
    EXPECT_NEAR(slow_update.stall_seconds, touched, 0.05 * touched);
  }
}

// Inputs of every layer, a quarter as large as its weights; 0 of the first and last unit.
TEST(StepSimulation, SpilledInputsTakeTheirTimeOfTheDiskAndNoOther) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    for (TierChoice state : {TierChoice::kHost, TierChoice::kNvme}) {
      PlanRequest request = TwelveLayers(update, state);
      AddInputs(request, TierChoice::kHost);
      const SwapPlan kept = PlanOf(request);
      request.activations = TierChoice::kNvme;
      const SwapPlan spilled = PlanOf(request);
      const StepClock slow = Clock(request, 1e-6, 1e7, 1e15);
      const double longer = SimulateStep(spilled, slow).seconds - SimulateStep(kept, slow).seconds;
      const double taken = 2 * 12 * 350 * 2048 / 1e7;
      EXPECT_NEAR(longer, taken, 0.05 * taken);
      const StepClock fast = Clock(request, 0.01, 1e15, 1e15);
      EXPECT_NEAR(SimulateStep(spilled, fast).seconds, SimulateStep(kept, fast).seconds, 1e-6);
      // Hidden behind compute, but for the last layer's, which is needed again at once.
      const StepClock hidden = Clock(request, 1, 1e8, 1e15);
      if (state == TierChoice::kHost) {
        EXPECT_NEAR(SimulateStep(spilled, hidden).seconds, SimulateStep(kept, hidden).seconds,
                    2 * 350 * 2048 / 1e8);
      }
    }
  }
}

TEST(StepSimulation, NoStepIsFasterThanAnyResource) {
  std::mt19937 random(7);
  int late = 0;
  for (int i = 0; i < 200; ++i) {
    PlanRequest request =
        TwelveLayers(random() % 2 ? UpdateMode::kImmediate : UpdateMode::kDeferred,
                     random() % 2 ? TierChoice::kNvme : TierChoice::kAuto);
    if (random() % 2) AddInputs(request, random() % 2 ? TierChoice::kNvme : TierChoice::kAuto);
    request.host_bytes = Smallest(request) + random() % 60000000;
    request.deferred_share = (random() % 5) / 4.0;
    const SwapPlan plan = PlanOf(request);
    const double op_seconds = 0.001 * (1 + random() % 50);  // in an order that no compiler chooses
    const double disk_rate = 1e8 * (1 + random() % 100), update_rate = 1e8 * (1 + random() % 100);
    const StepClock clock = Clock(request, op_seconds, disk_rate, update_rate);
    const SimulatedStep step = SimulateStep(plan, clock);
    const double disk = clock.disk.Seconds(plan.traffic.read_bytes, plan.traffic.written_bytes);
    // An update that comes late may find the next forward's memory there, and saves it its fetch.
    const double fetch = clock.disk.Seconds(2.0 * plan.layout.PaddedParameters(2), 0);
    EXPECT_GE(step.seconds * 1.0005 + fetch, disk) << i;
    late += step.seconds * 1.0005 < disk;
    EXPECT_GE(step.seconds * 1.001, Sum(clock.op_seconds));
    EXPECT_LE(step.seconds,
              disk + Sum(clock.op_seconds) +
                  40.0 * plan.layout.TotalPaddedParameters() / clock.update_bytes_per_second);
    EXPECT_NEAR(step.seconds - step.stall_seconds, Sum(clock.op_seconds), 1e-6);
  }
  EXPECT_LE(late, 2);  // the plan counts no fetch that an update in good time saves
}

// At the turn nothing is computed beside the embedding's update: what was read before it keeps the
// forward waiting no longer, nor does what is written after it. That is not all of the writes that
// have memory to wait in: those that wait share the disk with the reads that are left.
TEST(StepSimulation, ReadingAheadAtTheTurnSavesThatShareOfTheUpdate) {
  PlanRequest request = TwelveLayers(UpdateMode::kImmediate, TierChoice::kNvme);
  request.layout = StateLayout(
      {{"embedding", 64 * 65536}, {"h.0", 65536}, {"h.1", 65536}, {"h.2", 65536}, {"head", 2048}},
      request.layout.planes(), 2, 65536);
  request.schedule = BuildTrainSchedule({{{}, {}, {}, {}, {0}}}, UpdateMode::kImmediate);
  request.max_tile_buffers = 8;
  request.host_bytes = Smallest(request) + 30000000;
  const auto plan_with = [&](bool ahead) {
    request.read_ahead_at_turn = ahead;
    return PlanOf(request);
  };
  const SwapPlan plain = plan_with(false), ahead = plan_with(true);
  EXPECT_EQ(plain.turn_tiles(), 0);
  ASSERT_EQ(ahead.turn_unit, 0);
  ASSERT_GT(ahead.turn_tiles(), 8);
  ASSERT_LT(ahead.turn_tiles(), 56);
  EXPECT_LE(ahead.host_arena_bytes, request.host_bytes);
  EXPECT_EQ(ahead.traffic.read_bytes, plain.traffic.read_bytes);
  // Operations that take long, a disk whose reads and writes are in each other's way.
  StepClock clock = Clock(request, 10, 1e9, 1e15);
  const double rate = 1e8;
  clock.disk = {rate, rate, rate};
  const double saved = SimulateStep(plain, clock).seconds - SimulateStep(ahead, clock).seconds;
  // 10 bytes of a parameter are read, its weight being at hand, and 12 written.
  const int read = ahead.turn_tiles(), written = ahead.turn_tiles() + ahead.tile_buffers;
  EXPECT_GT(saved, 10 * read * 65536 / rate);
  EXPECT_LT(saved, (10 * read + 12 * written) * 65536 / rate);
}

TEST(StepSimulation, TheClockDefersUpdatesWhereTheForwardLeavesTheDiskIdle) {
  PlanRequest request = TwelveLayers(UpdateMode::kImmediate, TierChoice::kNvme);
  request.host_bytes = Smallest(request) + 60000000;
  request.read_ahead_at_turn = false;
  const SwapPlan plain = PlanOf(request);
  // Disk and compute take about as long as each other over the whole step.
  const double bytes = plain.traffic.read_bytes + plain.traffic.written_bytes;
  StepClock clock = Clock(request, 1, 1, 1e15);
  const double rate = bytes / Sum(clock.op_seconds);
  clock.disk = {rate, rate, rate};
  request.clock = clock;
  const SwapPlan chosen = PlanOf(request);
  const auto deferred = std::count(chosen.deferred.begin(), chosen.deferred.end(), true);
  EXPECT_GE(deferred, 2);
  EXPECT_LE(deferred, 8);
  EXPECT_LT(SimulateStep(chosen, clock).seconds, 0.95 * SimulateStep(plain, clock).seconds);
  EXPECT_LT(SimulateStep(chosen, clock).seconds, 1.17 * Sum(clock.op_seconds));
  // A disk that nobody waits for changes nothing, and memory that is not there is not taken.
  clock.disk = {1e15, 1e15, 1e15};
  request.clock = clock;
  const SwapPlan fast = PlanOf(request);
  EXPECT_EQ(std::count(fast.deferred.begin(), fast.deferred.end(), true), 0);
  request.host_bytes = Smallest(request);
  const SwapPlan tight = PlanOf(request);
  EXPECT_EQ(std::count(tight.deferred.begin(), tight.deferred.end(), true), 0);
}

TEST(StepSimulation, MoreMemoryIsNeverSlower) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    for (double disk_rate : {2e8, 1e9}) {
      PlanRequest request = TwelveLayers(update, TierChoice::kAuto);
      request.clock = Clock(request, 0.02, disk_rate, 1e11);
      const uint64_t smallest = Smallest(request);
      double before = 1e9;
      for (uint64_t extra = 0; extra <= 320000000; extra += 20000000) {
        request.host_bytes = smallest + extra;
        const double seconds = SimulateStep(PlanOf(request), *request.clock).seconds;
        EXPECT_LE(seconds, before * 1.02) << "update " << int(update) << " extra " << extra;
        before = std::min(before, seconds);
      }
      EXPECT_NEAR(before, Sum(request.clock->op_seconds), 0.02 * before);
    }
  }
}

// With so little that weights cannot be read ahead in the backward, memory goes to the updates
// under way, so that the next backward need not wait for them, and to the forward's look-ahead.
TEST(StepSimulation, LittleMemoryGoesToWhatSavesMost) {
  PlanRequest request = TwelveLayers(UpdateMode::kImmediate, TierChoice::kNvme);
  request.deferred_share = 0;
  request.rounded_sums.assign(request.layout.num_units(), true);
  const SwapPlan loose = PlanOf(request);
  const double bytes = loose.traffic.read_bytes + loose.traffic.written_bytes;
  const double compute = 4;
  request.clock = Clock(request, compute / request.schedule.ops.size(), bytes / compute, 1e15);
  const double least = SimulateStep(PlanOf(request), *request.clock).seconds;
  const uint64_t smallest = SmallestBudgets(request)->front().host_bytes;
  const uint64_t layer = request.layout.PaddedParameters(1) * 2;
  // Weights of two layers more than the smallest budget.
  request.host_bytes = smallest + 2 * layer + (1 << 20);
  const SwapPlan plan = PlanOf(request);
  EXPECT_LT(SimulateStep(plan, *request.clock).seconds, 1.1 * least);
  EXPECT_EQ(plan.lookahead, 0);
  EXPECT_GE(plan.forward_lookahead, 1);
}

// The memory that the matrices of a vocabulary need, with their gradients, at both ends of a step
// and between its halves, is the layers' everywhere else: weights are read ahead there, and updates
// have time. (Llama 3 8B with moments of 8 bits, on a disk that moves 4 GB a second.)
TEST(StepSimulation, ALargeVocabularysMemoryServesTheLayers) {
  PlanRequest request;
  std::vector<UnitLayout> units = {{"embedding", 525336576}};
  ScheduleModel model{{{}}};
  for (int i = 0; i < 32; ++i) {
    units.push_back({absl::StrCat("h.", i), 218112000});
    model.borrows.push_back({});
  }
  units.push_back({"head", 525340672});
  model.borrows.push_back({});
  request.layout = StateLayout(
      std::move(units),
      {{Plane::kWeight, 2}, {Plane::kResidual, 2}, {Plane::kExpAvg, 1}, {Plane::kExpAvgSq, 1}}, 2,
      2 << 20);
  request.schedule = BuildTrainSchedule(model, UpdateMode::kImmediate);
  request.weights = request.optimizer = TierChoice::kNvme;
  request.has_storage = true;
  request.device_bytes = 0;
  request.rounded_sums.assign(request.layout.num_units(), true);
  StepClock clock = Clock(request, 0.21, 4e9, 12e9);
  for (size_t op : {size_t{0}, clock.op_seconds.size() - 1}) clock.op_seconds[op] = 0.05;
  request.clock = clock;
  request.host_bytes = uint64_t{2300} << 20;
  const SwapPlan plan = PlanOf(request);
  EXPECT_LE(plan.host_arena_bytes, request.host_bytes);
  EXPECT_EQ(plan.lookahead, 0);
  EXPECT_LT(SimulateStep(plan, clock).seconds, 1.5 * Sum(clock.op_seconds));
}

// A run opens its store for the plan that it makes before anything is timed.
TEST(StepSimulation, TheClockSpillsNothingThatIsNotSpilledWithoutOne) {
  // The first are any requests; with the last a plan for less memory once spilled more.
  for (int i : {0, 1, 2, 3, 4, 5, 6, 7, 1579}) {
    std::mt19937 random(i);
    PlanRequest request = TwelveLayers(
        random() % 4 ? UpdateMode::kDeferred : UpdateMode::kImmediate, TierChoice::kNvme);
    if (random() % 2) request.weights = TierChoice::kHost;
    request.activation_bytes.assign(request.layout.num_units(), random() % 2 ? 4 << 20 : 0);
    request.input_in_flight_bytes = 4 << 20;
    request.device_bytes = random() % (32 << 20);
    request.host_bytes = Smallest(request) + random() % 60000000;
    const SwapPlan plain = PlanOf(request);
    const double rate = 1e6 * (1 + random() % 5000);
    request.clock = Clock(request, 0.001 * (1 + random() % 50), rate, 1e8 * (1 + random() % 100));
    const SwapPlan chosen = PlanOf(request);
    for (int unit = 0; unit < request.layout.num_units(); ++unit) {
      EXPECT_LE(chosen.spill_room.gradients[unit], plain.spill_room.gradients[unit]) << i;
      EXPECT_LE(chosen.spill_room.activation_bytes[unit], plain.spill_room.activation_bytes[unit])
          << i;
    }
  }
}

// Of many tiles neighbours are taken together, which is no other plan.
TEST(StepSimulation, ATileMoreOrLessDoesNotCount) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    PlanRequest request = TwelveLayers(update, TierChoice::kNvme);
    double seconds[2];
    for (uint64_t tile_parameters : {65536, 4096}) {  // 280 tiles, and 4500
      request.layout =
          StateLayout(request.layout.units(), request.layout.planes(), 2, tile_parameters);
      request.max_tile_buffers = 24;
      request.host_bytes = Smallest(request) + 30000000;
      const SwapPlan plan = PlanOf(request);
      const double bytes = plan.traffic.read_bytes + plan.traffic.written_bytes;
      const StepClock clock = Clock(request, 0.01, bytes / 0.5, 1e10);
      seconds[tile_parameters == 4096] = SimulateStep(plan, clock).seconds;
    }
    EXPECT_NEAR(seconds[1], seconds[0], 0.03 * seconds[0]);
  }
}

TEST(StepSimulation, TwiceTheLayersTakeTwiceTheTime) {
  for (UpdateMode update : {UpdateMode::kImmediate, UpdateMode::kDeferred}) {
    double seconds[2];
    for (int i = 0; i < 2; ++i) {
      PlanRequest request = TwelveLayers(update, TierChoice::kNvme, 12 << i);
      request.host_bytes = Smallest(TwelveLayers(update, TierChoice::kNvme, 12)) + 30000000;
      request.clock = Clock(request, 0.02, 1e9, 1e11);
      seconds[i] = SimulateStep(PlanOf(request), *request.clock).seconds;
    }
    EXPECT_LE(seconds[1], 2.05 * seconds[0]);
  }
}

}  // namespace
}  // namespace spillway
