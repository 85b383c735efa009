// Forecasts of one rank of several: what ranks exchange is a resource like the disk.
#include <cmath>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "engine/estimate/run_forecast.h"
#include "engine/estimate/run_plan.h"
#include "gtest/gtest.h"
#include "swap/forecast/step_simulation.h"

namespace spillway {
namespace {

constexpr int kUnits = 8;
constexpr CollectiveRates kFast = {1e12, 1e12, 1e-7};

// Like layers between an embedding and a head that borrows it.
ModelDescription Layers() {
  ModelDescription model;
  for (int i = 0; i < kUnits; ++i) {
    UnitDescription unit;
    unit.name = absl::StrCat("u", i);
    unit.parameters.push_back(
        {absl::StrCat(unit.name, ".weight"), {i == kUnits - 1 ? 4 : 500, 512}});
    if (i == kUnits - 1) unit.borrows = {0};
    model.units.push_back(unit);
  }
  EXPECT_TRUE(LayOutParameters(model).ok());
  return model;
}

TrainOptions OneOf(int ranks, Shard shard, int group, double clip, Offload offload) {
  TrainOptions options;
  options.dtype = DType::kBFloat16;
  options.clip = clip;
  options.ranks = ranks;
  options.shard = shard;
  options.shard_group_size = group;
  options.swap_paths = {"/swap"};
  options.offload_param = options.offload_optimizer = offload;
  options.device_memory_bytes = options.host_memory_bytes = uint64_t{256} << 20;
  return options;
}

DryRun Times(double forward) {
  DryRun times;
  times.forward_seconds.assign(kUnits, forward);
  times.backward_seconds.assign(kUnits, 3 * forward);
  return times;
}

struct Forecasted {
  SwapPlan plan;
  StepClock clock;
  StepForecast forecast;

  double exchanged() const {
    const std::vector<double>& seconds = clock.collective->seconds;
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
  }
};

// With `clock`'s rates of disk and update.
Forecasted ForecastOf(const TrainOptions& options, StepClock clock, double forward,
                      const CollectiveRates& rates) {
  RunPlanInput input;
  auto run = PlanRun(Layers(), options, input);
  EXPECT_TRUE(run.ok() && run->swaps.has_value()) << run.status();
  TimeOperations(*run, Times(forward), rates, clock);
  input.clock = clock;
  run = PlanRun(Layers(), options, input);
  EXPECT_TRUE(run.ok() && run->swaps.has_value()) << run.status();
  EXPECT_TRUE(clock.op_seconds.empty());
  return {*run->swaps, clock, ForecastRun(*run->swaps, clock)};
}

StepClock FastClock() {
  StepClock clock;
  clock.disk = {1e12, 1e12, 1e12};
  clock.update_bytes_per_second = 1e12;
  return clock;
}

TEST(RankForecast, ASlowExchangeIsWhatBindsAndWhatAStepTakes) {
  for (double clip : {0.0, 1.0}) {
    for (const CollectiveRates& slow :
         {CollectiveRates{1e7, 1e7, 1e-7}, CollectiveRates{1e12, 1e12, 1}}) {
      const TrainOptions options = OneOf(4, Shard::kFull, 4, clip, Offload::kNvme);
      const Forecasted run = ForecastOf(options, FastClock(), 1e-5, slow);
      EXPECT_EQ(run.forecast.binding, Resource::kCollective);
      for (const PhaseForecast& phase : run.forecast.phases) {
        EXPECT_EQ(phase.binding, Resource::kCollective);
      }
      EXPECT_GT(run.exchanged(), 1);
      EXPECT_NEAR(run.forecast.bound_seconds, run.exchanged(), 0.01 * run.exchanged());
      EXPECT_NEAR(run.forecast.predicted_seconds, run.exchanged(), 0.01 * run.exchanged());
    }
  }
}

// Weights to three others, gradients in fp32 likewise: as many bytes as docs/DISTRIBUTED.md says.
TEST(RankForecast, AnExchangeTakesItsBytesAtTheRateAndItsLatency) {
  const TrainOptions options = OneOf(4, Shard::kFull, 4, 0, Offload::kCpu);
  const auto run = PlanRun(Layers(), options, {});
  const double bytes = CollectiveBytes(run->shards->schedule, run->shards->sums).total_bytes();
  EXPECT_NEAR(ForecastOf(options, FastClock(), 1, {1e8, 1e8, 0}).exchanged(), bytes / 1e8, 1e-6);
  const double gathered = CollectiveBytes(run->shards->schedule, run->shards->sums).gather_bytes;
  EXPECT_NEAR(ForecastOf(options, FastClock(), 1, {1e8, 1e15, 0}).exchanged(), gathered / 1e8,
              1e-6);
  int exchanges = 0;
  for (const ActionTraffic& each : TrafficByAction(run->shards->schedule, run->shards->sums)) {
    exchanges += each.exchanges;
  }
  EXPECT_NEAR(ForecastOf(options, FastClock(), 1, {1e15, 1e15, 1e-3}).exchanged(), 1e-3 * exchanges,
              1e-6);
  // With clipping they agree on the norm and more, four times one after the other.
  const TrainOptions clipped = OneOf(4, Shard::kFull, 4, 1, Offload::kCpu);
  EXPECT_NEAR(ForecastOf(clipped, FastClock(), 1, {1e15, 1e15, 1e-3}).exchanged(),
              1e-3 * (exchanges + 4), 1e-6);
}

TEST(RankForecast, ExchangesHiddenBehindComputeDoNotBind) {
  for (double clip : {0.0, 1.0}) {
    const TrainOptions options = OneOf(2, Shard::kFull, 2, clip, Offload::kNvme);
    const Forecasted run = ForecastOf(options, FastClock(), 0.1, {1e8, 1e8, 1e-6});
    EXPECT_GT(run.exchanged(), 0.05);
    EXPECT_EQ(run.forecast.binding, Resource::kCompute);
    EXPECT_EQ(run.forecast.phases[0].binding, Resource::kCompute);
    EXPECT_EQ(run.forecast.phases[1].binding, Resource::kCompute);
    const double compute = 0.1 * (kUnits - 1) + 0.3 * kUnits;
    // The first gather and the last sum have nothing beside them.
    EXPECT_GT(run.forecast.predicted_seconds, compute);
    EXPECT_LT(run.forecast.predicted_seconds, compute + 0.05);
    EXPECT_GT(run.forecast.phases[0].predicted_seconds, 0.1 * (kUnits - 1));
    EXPECT_LT(run.forecast.phases[0].predicted_seconds, 0.1 * (kUnits - 1) + 0.05);
  }
}

// Of three simulated steps the last does a hundredth more or less than a step's work.
TEST(RankForecast, TheBoundIsNeverAboveASimulatedStep) {
  std::mt19937 random(17);
  const auto rate = [&](double least) { return least * std::pow(30, random() / 4294967296.0); };
  const Shard modes[] = {Shard::kNone, Shard::kGradients, Shard::kFull, Shard::kHybrid};
  int bound_by_ranks = 0;
  for (int round = 0; round < 200; ++round) {
    const Shard mode = modes[random() % 4];
    const int ranks = mode == Shard::kHybrid ? 4 : 2 + static_cast<int>(random() % 3);
    const int group = mode == Shard::kNone ? 1 : mode == Shard::kHybrid ? 2 : ranks;
    TrainOptions options =
        OneOf(ranks, mode, group, round % 2, random() % 3 ? Offload::kNvme : Offload::kCpu);
    options.communication_format = static_cast<ExchangeFormat>(random() % 3);
    StepClock clock;
    clock.disk = {rate(2e8), rate(2e8), 0};
    clock.disk.mixed_bytes_per_second =
        rate(0.1 * (clock.disk.read_bytes_per_second + clock.disk.write_bytes_per_second));
    clock.update_bytes_per_second = rate(1e9);
    clock.shared_cores = (random() % 3) * 0.5;
    const CollectiveRates rates = {rate(5e7), rate(5e7), rate(1e-5)};
    const Forecasted run = ForecastOf(options, clock, rate(5e-4), rates);
    const SimulatedStep simulated = SimulateStep(run.plan, run.clock);
    // A disk that writes slowly is not behind yet after three steps where tile buffers hold all
    // that a step writes; the prediction is the bound there.
    const bool held =
        run.plan.tile_buffers * run.plan.tile_buffer_bytes >= run.plan.traffic.written_bytes;
    EXPECT_LE(run.forecast.bound_seconds,
              held ? run.forecast.predicted_seconds : simulated.seconds * 1.02)
        << "round " << round;
    EXPECT_NEAR(simulated.collective_seconds, run.exchanged(), 1e-6);
    bound_by_ranks += run.forecast.binding == Resource::kCollective;
  }
  EXPECT_GT(bound_by_ranks, 20);
  EXPECT_LT(bound_by_ranks, 180);
}

TEST(RankForecast, APredictionAtObservedRatesHasTheExchangesOwn) {
  const TrainOptions options = OneOf(2, Shard::kFull, 2, 1, Offload::kCpu);
  const Forecasted run = ForecastOf(options, FastClock(), 1e-4, {1e8, 2e8, 1e-5});
  ObservedRates observed;
  observed.collective_seconds = 10 * 2 * run.exchanged();
  observed.steps = 10;
  const StepClock half = AtObservedRates(run.clock, observed);
  ASSERT_TRUE(half.collective.has_value());
  for (size_t i = 0; i < half.collective->seconds.size(); ++i) {
    EXPECT_DOUBLE_EQ(half.collective->seconds[i], 2 * run.clock.collective->seconds[i]);
  }
  EXPECT_NEAR(ForecastRun(run.plan, half).predicted_seconds, 2 * run.forecast.predicted_seconds,
              0.02 * run.forecast.predicted_seconds);
  observed.steps = 0;
  EXPECT_EQ(AtObservedRates(run.clock, observed).collective->seconds,
            run.clock.collective->seconds);
}

TEST(RankForecast, OneRankHasNone) {
  const TrainOptions options = OneOf(1, Shard::kFull, 1, 1, Offload::kCpu);
  auto run = PlanRun(Layers(), options, {});
  ASSERT_TRUE(run.ok() && run->swaps) << run.status();
  StepClock clock = FastClock();
  TimeOperations(*run, Times(0.1), kFast, clock);
  EXPECT_FALSE(clock.collective.has_value());
  EXPECT_EQ(clock.op_seconds.size(), run->swaps->schedule.ops.size());
  for (const PhaseForecast& phase : ForecastRun(*run->swaps, clock).phases) {
    EXPECT_EQ(phase.collective_seconds, 0);
  }
}

}  // namespace
}  // namespace spillway
