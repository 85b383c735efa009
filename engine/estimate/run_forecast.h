// The clock by which plans of a run are timed on this machine, and a plan's forecast. Unknown rates
// are measured, in about a second at most; those of disks and of a device's link are saved
// (engine/estimate/machine_profile.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/estimate/step_forecast.h"
#include "engine/model/step_compute.h"
#include "engine/options/train_options.h"
#include "swap/device/device.h"
#include "swap/plan/swap_plan.h"
#include "swap/store/in_place.h"

namespace spillway {

// Number of workers that update and verify in a run, and in its forecast: options.update_threads,
// or a number suitable for the `cores` that its ranks on this machine share
// (engine/machine/core_limits.h). One of them serves a separate device. REQUIRES: options.threads
// is resolved. A pure function.
int UpdateWorkers(const TrainOptions& options, int cores, bool separate_device);

// Returns none if SPILLWAY_PROFILE=off, if `dry_run` has no times, or if a swap path or the device
// cannot be measured, which is logged. `plan`: made without a clock; the plan made with one moves
// as many bytes. `in_place`: weights read in the model's files. `device`: the plan's separate
// device, with nothing under way; null if it has none. REQUIRES: options.threads is resolved; swap
// paths exist if the plan uses them. Uses no more memory than the plan's arenas will, or a few MiB.
std::optional<StepClock> MeasureClock(const SwapPlan& plan, const TrainOptions& options,
                                      const DryRun& dry_run, int workers,
                                      const InPlaceUnits& in_place, Device* device = nullptr);

// Bounds by phase, and the simulated time of a step. A pure function.
StepForecast ForecastRun(const SwapPlan& plan, const StepClock& clock);

// Seconds of each operation as the dry run timed them; for a plan that keeps graphs, use those of
// WithoutRecompute (engine/estimate/run_plan.h).
std::vector<double> OpSeconds(const StepSchedule& schedule, const DryRun& dry_run);

// Totals of a run's steady steps: bytes of the disk and seconds with a transfer under way, the same
// for each direction of a separate device's link, and seconds of exchanges with other ranks.
struct ObservedRates {
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  double busy_seconds = 0;
  CopyTime to_device = {};
  CopyTime to_host = {};
  double collective_seconds = 0;
  int64_t steps = 0;  // number of steps in the totals
};

// The clock with the observed rates of disk, link and exchanges. Reading and writing keep their
// proportion, as do exchanges among themselves; everything else is unchanged. A rate stays if
// nothing was moved, or the plan moves nothing. A pure function.
StepClock AtObservedRates(StepClock clock, const ObservedRates& observed);

// Returns "0.52 s a step, at least 0.48 s, bound by the disk".
std::string DescribeForecast(const StepForecast& forecast);

}  // namespace spillway
