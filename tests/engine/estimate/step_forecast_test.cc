#include "engine/estimate/step_forecast.h"

#include "gtest/gtest.h"

namespace spillway {
namespace {

constexpr int kForwardPhase = 0, kBackwardPhase = 1, kFlush = 2;

// A disk of 100 bytes a second read, 50 written, 80 together; updates 200.
ForecastInput SomeForecast() {
  ForecastInput input;
  input.disk = {100, 50, 80};
  input.update_bytes_per_second = 200;
  input.forward_seconds = 2;
  input.backward_seconds = 6;
  return input;
}

double PhaseBounds(const StepForecast& step) {
  double seconds = 0;
  for (const PhaseForecast& phase : step.phases) seconds += phase.bound_seconds;
  return seconds;
}

TEST(StepForecast, EachPhaseTakesAsLongAsItsBusiestResource) {
  ForecastInput input = SomeForecast();
  input.traffic[kForwardPhase] = {500, 100,
                                  600};  // disk: read 5, written 2, together 7.5; update 3
  input.traffic[kBackwardPhase] = {100, 150, 400};  // disk: 1, 3, 3.125; update 2
  input.traffic[kFlush] = {0, 0, 100};              // update 0.5
  const StepForecast step = Forecast(input);
  EXPECT_DOUBLE_EQ(step.phases[kForwardPhase].disk_seconds, 7.5);
  EXPECT_DOUBLE_EQ(step.phases[kForwardPhase].update_seconds, 3);
  EXPECT_EQ(step.phases[kForwardPhase].binding, Resource::kDisk);
  EXPECT_DOUBLE_EQ(step.phases[kBackwardPhase].disk_seconds, 3.125);
  EXPECT_EQ(step.phases[kBackwardPhase].binding, Resource::kCompute);
  EXPECT_EQ(step.phases[kFlush].binding, Resource::kUpdate);
  EXPECT_DOUBLE_EQ(PhaseBounds(step), 7.5 + 6 + 0.5);
  EXPECT_DOUBLE_EQ(step.predicted_seconds, 7.5 + 6 + 0.5);
  EXPECT_EQ(step.binding, Resource::kDisk);
}

// Backward's disk work may run beside the next forward's compute, and forward's may not beside
// this backward's.
TEST(StepForecast, TheBoundOfAStepHoldsHoweverItsPhasesOverlap) {
  ForecastInput input = SomeForecast();
  input.disk = {100, 100, 100};
  input.traffic[kBackwardPhase] = {650, 50, 0};  // 7 s of disk beside 6 of compute; forward 2
  StepForecast step = Forecast(input);
  EXPECT_DOUBLE_EQ(PhaseBounds(step), 2 + 7);
  EXPECT_DOUBLE_EQ(step.bound_seconds, 8);
  input.traffic[kBackwardPhase].read_bytes = 850;
  EXPECT_DOUBLE_EQ(Forecast(input).bound_seconds, 9);  // the disk alone
  input.traffic[kBackwardPhase] = {};
  input.traffic[kForwardPhase] = {400, 300, 0};
  EXPECT_DOUBLE_EQ(Forecast(input).bound_seconds, 7 + 6);
  input.traffic[kForwardPhase].update_bytes = 1600;
  EXPECT_DOUBLE_EQ(Forecast(input).bound_seconds, 8 + 6);
  // What memory holds is read before the phase, or written after it; updates wait.
  input.carried_bytes = 200;
  EXPECT_DOUBLE_EQ(Forecast(input).bound_seconds, 8 + 6);
  input.traffic[kForwardPhase].update_bytes = 0;
  EXPECT_DOUBLE_EQ(Forecast(input).bound_seconds, 3 + 6);
  input.carried_bytes = 1000;
  EXPECT_DOUBLE_EQ(Forecast(input).bound_seconds, 2 + 6);
}

TEST(StepForecast, NoDiskIsHeldToAMixedRateThatItCanAvoid) {
  ForecastInput input = SomeForecast();
  input.disk = {100, 100, 50};
  input.traffic[kForwardPhase] = {500, 500, 0};
  const StepForecast step = Forecast(input);
  EXPECT_DOUBLE_EQ(step.phases[kForwardPhase].disk_seconds, 20);
  EXPECT_DOUBLE_EQ(step.bound_seconds, 10 + 6);
}

TEST(StepForecast, ReadsWritesOrBothTogetherBindTheDisk) {
  ForecastInput input = SomeForecast();
  input.disk = {100, 50, 1000};
  input.traffic[kFlush] = {700, 100, 0};
  EXPECT_DOUBLE_EQ(Forecast(input).phases[kFlush].disk_seconds, 7);
  input.traffic[kFlush] = {700, 400, 0};
  EXPECT_DOUBLE_EQ(Forecast(input).phases[kFlush].disk_seconds, 8);
}

TEST(StepForecast, WorkersOnComputesCoresAreAdded) {
  ForecastInput input = SomeForecast();
  input.traffic[kForwardPhase] = {0, 0, 300};  // 1.5 s
  input.shared_cores = 0.5;
  const StepForecast step = Forecast(input);
  EXPECT_DOUBLE_EQ(step.bound_seconds, 8);
  EXPECT_DOUBLE_EQ(step.predicted_seconds, 2 + 0.75 + 6);
  // Behind a slow disk it makes no difference.
  input.traffic[kForwardPhase].read_bytes = 1000;
  EXPECT_DOUBLE_EQ(Forecast(input).phases[kForwardPhase].predicted_seconds, 12.5);
}

TEST(StepForecast, WithoutTrafficRatesDoNotMatter) {
  ForecastInput input;
  input.forward_seconds = 1;
  input.backward_seconds = 3;
  const StepForecast step = Forecast(input);
  EXPECT_DOUBLE_EQ(step.bound_seconds, 4);
  EXPECT_EQ(step.binding, Resource::kCompute);
}

TEST(StepForecast, CoresAreSharedWhereComputeLeavesTooFew) {
  EXPECT_DOUBLE_EQ(SharedCores(2, 2, 2), 1);
  EXPECT_DOUBLE_EQ(SharedCores(16, 16, 2), 0.125);
  EXPECT_DOUBLE_EQ(SharedCores(16, 14, 2), 0);
  EXPECT_DOUBLE_EQ(SharedCores(16, 15, 2), 1.0 / 16);
  EXPECT_DOUBLE_EQ(SharedCores(1, 4, 2), 1);
}

TEST(StepForecast, BindingSecondsAreOfWhatBindsEachPhase) {
  ForecastInput input = SomeForecast();
  input.traffic[kForwardPhase] = {500, 100, 0};
  input.traffic[kFlush] = {0, 0, 100};
  // By resource: disk, compute, update.
  const std::array<ResourceSeconds, kPhases> busy = {
      ResourceSeconds{7, 1, 2}, ResourceSeconds{3, 6.5, 4}, ResourceSeconds{0.25, 0, 0.625}};
  EXPECT_DOUBLE_EQ(BindingSeconds(Forecast(input), busy), 7 + 6.5 + 0.625);
}

TEST(StepForecast, TheLinksSlowerDirectionBindsAPhase) {
  ForecastInput input = SomeForecast();
  input.link = {100, 50};
  input.traffic[kForwardPhase].to_device_bytes = 700;
  input.traffic[kForwardPhase].to_host_bytes = 300;
  StepForecast step = Forecast(input);
  EXPECT_DOUBLE_EQ(step.phases[kForwardPhase].copy_seconds, 7);
  EXPECT_EQ(step.phases[kForwardPhase].binding, Resource::kCopy);
  EXPECT_EQ(ResourceName(step.binding), "copy");
  EXPECT_DOUBLE_EQ(step.bound_seconds, 7 + 6);
  // What the arenas hold may go there before the step's end.
  input.carried_bytes = 400;
  EXPECT_DOUBLE_EQ(Forecast(input).bound_seconds, 3 + 6);
  input.traffic[kForwardPhase].to_host_bytes = 750;
  EXPECT_DOUBLE_EQ(Forecast(input).bound_seconds, 15);  // the link alone
  const std::array<ResourceSeconds, kPhases> busy = {
      ResourceSeconds{1, 2, 3, 9}, ResourceSeconds{0, 5, 0, 4}, {}};
  EXPECT_DOUBLE_EQ(BindingSeconds(step, busy), 9 + 5);
}

// Nothing computes beside the last sums, and the next forward's gathers come after them.
TEST(StepForecast, ExchangesBindAPhaseAndTheLastSumsAreAddedToCompute) {
  ForecastInput input = SomeForecast();  // computes 2 and 6
  input.collective_seconds = {1, 5, 0.5};
  StepForecast step = Forecast(input);
  EXPECT_DOUBLE_EQ(step.bound_seconds, 2 + 6 + 0.5);
  EXPECT_EQ(step.phases[kForwardPhase].binding, Resource::kCompute);
  EXPECT_EQ(step.phases[kBackwardPhase].binding, Resource::kCompute);
  EXPECT_EQ(step.phases[kFlush].binding, Resource::kCollective);
  input.collective_seconds = {3, 5, 0.5};
  EXPECT_DOUBLE_EQ(Forecast(input).bound_seconds, 3 + 0.5 + 6);
  input.collective_seconds = {3, 9, 0.5};
  step = Forecast(input);
  EXPECT_DOUBLE_EQ(step.bound_seconds, 12.5);  // the exchanges alone
  EXPECT_EQ(step.binding, Resource::kCollective);
  EXPECT_EQ(ResourceName(step.binding), "collective");
  const std::array<ResourceSeconds, kPhases> busy = {
      ResourceSeconds{1, 2, 3, 4, 3.5}, ResourceSeconds{0, 5, 0, 0, 8}, ResourceSeconds{}};
  EXPECT_DOUBLE_EQ(BindingSeconds(step, busy), 3.5 + 8);
}

TEST(StepForecast, TheDevicesUpdatesRunBesideTheWorkers) {
  ForecastInput input = SomeForecast();
  input.device_update_bytes_per_second = 1000;
  input.traffic[kFlush].update_bytes = 400;
  input.traffic[kFlush].device_update_bytes = 3000;
  EXPECT_DOUBLE_EQ(Forecast(input).phases[kFlush].update_seconds, 3);
  input.traffic[kFlush].device_update_bytes = 1000;
  EXPECT_DOUBLE_EQ(Forecast(input).phases[kFlush].update_seconds, 2);
}

}  // namespace
}  // namespace spillway
