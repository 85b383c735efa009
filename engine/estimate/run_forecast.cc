#include "engine/estimate/run_forecast.h"

#include <algorithm>
#include <ctime>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/progress.h"
#include "engine/estimate/device_probe.h"
#include "engine/estimate/machine_probe.h"
#include "engine/estimate/machine_profile.h"
#include "engine/estimate/profile_file.h"
#include "engine/machine/core_limits.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "swap/forecast/step_simulation.h"

namespace spillway {
namespace {

constexpr uint64_t kLeastBufferBytes = uint64_t{1} << 20;
constexpr uint64_t kMostBufferBytes = uint64_t{32} << 20;
constexpr uint64_t kMostUpdateBytes = uint64_t{96} << 20;

// The disk's rates from the profile, or measured now.
absl::StatusOr<DiskRates> FindDiskRates(const SwapPlan& plan, const TrainOptions& options,
                                        const std::string& profile_path) {
  // Rates depend on the size of blocks.
  const std::string how = absl::StrFormat(
      "%s, %d x %d KiB",
      options.io.kind == IoEngineOptions::Kind::kThreads ? "threads" : "io_uring or threads",
      options.io.depth, options.io.block_bytes >> 10);
  const std::string device = DeviceKey(FindDevices(options.swap_paths), how);
  const uint64_t probe_bytes = ProbeBytesFor(plan.traffic);
  const int64_t now = time(nullptr);
  const MachineIdentity machine = ThisMachine();
  const LoadedProfile loaded = LoadProfile(profile_path, machine);
  if (const auto kept = loaded.profile.FindRates(device, probe_bytes, now)) return kept->rates;
  DiskProbe probe;
  probe.paths = options.swap_paths;
  probe.io = options.io;
  probe.probe_bytes = probe_bytes;
  probe.buffer_bytes = std::clamp(plan.host_arena_bytes, kLeastBufferBytes, kMostBufferBytes);
  ASSIGN_OR_RETURN(const DiskRates rates, MeasureDisk(probe));
  MachineProfile measured;
  measured.SetRates(device, {rates, probe_bytes, now});
  // If it cannot be saved, it is measured again next time.
  SaveProfile(profile_path, machine, measured).IgnoreError();
  LogInfo(absl::StrFormat("swap paths measured: %.2f GB/s read, %.2f written, %.2f both at once",
                          rates.read_bytes_per_second * 1e-9, rates.write_bytes_per_second * 1e-9,
                          rates.mixed_bytes_per_second * 1e-9));
  return rates;
}

// The link's rates from the profile, or measured now.
absl::StatusOr<LinkRates> FindLinkRates(const std::string& profile_path, uint64_t buffer_bytes,
                                        Device& device) {
  const int64_t now = time(nullptr);
  const MachineIdentity machine = ThisMachine();
  const LoadedProfile loaded = LoadProfile(profile_path, machine);
  if (const auto kept = loaded.profile.FindLink(device.name(), now)) return *kept;
  ASSIGN_OR_RETURN(const LinkMeasurement link, MeasureLink(device, buffer_bytes));
  MachineProfile measured;
  measured.SetLink(device.name(), {link.alone, now});
  // If it cannot be saved, it is measured again next time.
  SaveProfile(profile_path, machine, measured).IgnoreError();
  LogInfo(absl::StrFormat("link of %s measured: %.2f GB/s to it, %.2f from it", device.name(),
                          link.alone.to_device_bytes_per_second * 1e-9,
                          link.alone.to_host_bytes_per_second * 1e-9));
  return link.alone;
}

absl::Status MeasureDevice(const SwapPlan& plan, const TrainOptions& options,
                           const std::string& profile_path, Device* device, StepClock& clock) {
  if (device == nullptr) return absl::FailedPreconditionError("it is not there");
  const auto bytes_of = [](uint64_t arena_bytes) {
    return std::clamp(arena_bytes, kLeastBufferBytes, kMostBufferBytes);
  };
  const uint64_t link_bytes =
      std::min(bytes_of(plan.host_arena_bytes), bytes_of(plan.device_arena_bytes));
  ASSIGN_OR_RETURN(clock.link, FindLinkRates(profile_path, link_bytes, *device));
  if (plan.gradient_stays.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(clock.device_update_bytes_per_second,
                   MeasureDeviceUpdates(*device, options.optimizer, options.dtype, plan.layout,
                                        bytes_of(plan.device_arena_bytes)));
  return absl::OkStatus();
}

// Exchanges that begin after all computation belong to the flush.
void AddCollectives(const StepSchedule& schedule, const CollectiveClock& clock,
                    ForecastInput& input) {
  for (const auto& computation : clock.computations) {
    (computation.forward ? input.forward_seconds : input.backward_seconds) += computation.seconds;
  }
  const int all = static_cast<int>(clock.computations.size());
  for (size_t i = 0; i < clock.seconds.size(); ++i) {
    const Phase phase = clock.after[i] == all                      ? Phase::kFlush
                        : schedule.ops[i].kind == OpKind::kForward ? Phase::kForward
                                                                   : Phase::kBackward;
    input.collective_seconds[static_cast<int>(phase)] += clock.seconds[i];
  }
}

}  // namespace

int UpdateWorkers(const TrainOptions& options, int cores, bool separate_device) {
  if (options.update_threads > 0) return options.update_threads;
  return UpdateWorkersFor(std::max(1, cores / options.ranks_here),
                          separate_device ? 1 : std::max(1, options.threads));
}

std::optional<StepClock> MeasureClock(const SwapPlan& plan, const TrainOptions& options,
                                      const DryRun& dry_run, int workers,
                                      const InPlaceUnits& in_place, Device* device) {
  const ProfilePlace place = FindProfile();
  if (place.off || dry_run.forward_seconds.empty()) return std::nullopt;
  StepClock clock;
  const bool on_disk = plan.traffic.read_bytes + plan.traffic.written_bytes > 0;
  if (on_disk) {
    const auto rates = FindDiskRates(plan, options, place.path);
    if (!rates.ok()) {
      LogInfo(absl::StrCat("no forecast, since the swap paths could not be measured: ",
                           rates.status().message()));
      return std::nullopt;
    }
    clock.disk = *rates;
  }
  clock.update_bytes_per_second =
      MeasureUpdates(options.optimizer, options.dtype, plan.layout, on_disk, workers,
                     std::clamp(plan.host_arena_bytes, kLeastBufferBytes, kMostUpdateBytes));
  if (on_disk) {
    const CheckRates checks = MeasureChecks(
        workers, std::clamp(plan.host_arena_bytes, kLeastBufferBytes, kMostUpdateBytes));
    clock.check_bytes_per_second = checks.check_bytes_per_second;
    clock.place_bytes_per_second = checks.copy_bytes_per_second;
    for (int unit = 0; in_place.any() && unit < plan.layout.num_units(); ++unit) {
      clock.in_place.push_back(in_place.Has(unit));
    }
  }
  clock.op_seconds = OpSeconds(plan.schedule, dry_run);
  clock.workers = workers;
  if (plan.separate_device) {
    const absl::Status measured = MeasureDevice(plan, options, place.path, device, clock);
    clock.disk.processor_seconds_per_byte = 0;  // compute uses no core
    if (measured.ok()) return clock;
    LogInfo(
        absl::StrCat("no forecast, since the device could not be measured: ", measured.message()));
    return std::nullopt;
  }
  const int cores = std::max(1, UsableCores() / options.ranks_here);
  clock.shared_cores = SharedCores(cores, std::max(1, options.threads), workers);
  if (cores > options.threads) clock.disk.processor_seconds_per_byte = 0;
  return clock;
}

std::vector<double> OpSeconds(const StepSchedule& schedule, const DryRun& dry_run) {
  std::vector<double> seconds;
  for (const StepOp& op : schedule.ops) {
    seconds.push_back(op.kind == OpKind::kForward ? dry_run.forward_seconds[op.unit]
                      : op.kind == OpKind::kLoss  ? dry_run.backward_seconds.back()
                                                  : dry_run.backward_seconds[op.unit]);
  }
  return seconds;
}

StepClock AtObservedRates(StepClock clock, const ObservedRates& observed) {
  const auto observe = [](const CopyTime& copies, double& rate) {
    if (rate <= 0 || copies.bytes == 0 || copies.seconds <= 0) return;
    rate = static_cast<double>(copies.bytes) / copies.seconds;
  };
  observe(observed.to_device, clock.link.to_device_bytes_per_second);
  observe(observed.to_host, clock.link.to_host_bytes_per_second);
  if (clock.collective && observed.collective_seconds > 0 && observed.steps > 0) {
    std::vector<double>& seconds = clock.collective->seconds;
    const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    const double slower =
        observed.collective_seconds / static_cast<double>(observed.steps) / std::max(sum, 1e-12);
    for (double& each : seconds) each *= slower;
  }
  if (clock.disk == DiskRates()) return clock;  // only commits write
  const double expected = clock.disk.Seconds(static_cast<double>(observed.read_bytes),
                                             static_cast<double>(observed.written_bytes));
  if (expected <= 0 || observed.busy_seconds <= 0) return clock;
  const double faster = expected / observed.busy_seconds;
  clock.disk.read_bytes_per_second *= faster;
  clock.disk.write_bytes_per_second *= faster;
  clock.disk.mixed_bytes_per_second *= faster;
  return clock;
}

StepForecast ForecastRun(const SwapPlan& plan, const StepClock& clock) {
  ForecastInput input;
  input.traffic = TrafficByPhase(plan);
  input.disk = clock.disk;
  input.link = clock.link;
  input.update_bytes_per_second = clock.update_bytes_per_second;
  input.device_update_bytes_per_second = clock.device_update_bytes_per_second;
  input.shared_cores = clock.shared_cores;
  input.carried_bytes = plan.host_arena_bytes + plan.device_arena_bytes;
  for (size_t i = 0; i < clock.op_seconds.size(); ++i) {
    const bool forward = plan.schedule.ops[i].kind == OpKind::kForward;
    (forward ? input.forward_seconds : input.backward_seconds) += clock.op_seconds[i];
  }
  if (clock.collective) AddCollectives(plan.schedule, *clock.collective, input);
  StepForecast forecast = Forecast(input);
  const SimulatedStep step = SimulateStep(plan, clock);
  forecast.predicted_seconds = std::max(forecast.bound_seconds, step.seconds);
  // The flush runs beside the next forward, which waits for it.
  const auto predicted = [&](Phase phase) -> double& {
    return forecast.phases[static_cast<int>(phase)].predicted_seconds;
  };
  predicted(Phase::kForward) = step.forward_seconds;
  predicted(Phase::kBackward) = forecast.predicted_seconds - step.forward_seconds;
  predicted(Phase::kFlush) = 0;
  return forecast;
}

std::string DescribeForecast(const StepForecast& forecast) {
  return absl::StrCat(SecondsText(forecast.predicted_seconds), " a step, at least ",
                      SecondsText(forecast.bound_seconds), ", bound by ",
                      ResourceWords(forecast.binding));
}

}  // namespace spillway
