// The clock that plans of a run are timed with on this machine, and a plan's forecast. What is
// not known of the machine yet is measured, in about a second at most, and rates of disks and of a
// device's link are kept (engine/estimate/machine_profile.h).
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

// How many workers update and check in a run, and in its forecast: options.update_threads, or else
// what suits the `cores` that its ranks on this machine share (engine/machine/core_limits.h). A
// separate device computes with one of them. options.threads is resolved. A pure function.
int UpdateWorkers(const TrainOptions& options, int cores, bool separate_device);

// None where SPILLWAY_PROFILE=off, where `dry_run` has no times, or where a swap path or the
// device can't be measured; that is logged and no error. `device`: the separate one that the plan
// is for, with nothing under way; null where it has none. options.threads is resolved; swap paths
// exist where the plan uses them. Takes no more memory than the plan's arenas will, but for a few
// MiB where those are smaller.
// `in_place`: what is read in the model's files.
// `plan`: made without a clock; the one made with it moves as many bytes.
std::optional<StepClock> MeasureClock(const SwapPlan& plan, const TrainOptions& options,
                                      const DryRun& dry_run, int workers,
                                      const InPlaceUnits& in_place, Device* device = nullptr);

// Bounds by phase, and the simulated time of a step. A pure function.
StepForecast ForecastRun(const SwapPlan& plan, const StepClock& clock);

// A step's compute by op, as the dry run timed it; of a plan that keeps graphs,
// WithoutRecompute's (engine/estimate/run_plan.h).
std::vector<double> OpSeconds(const StepSchedule& schedule, const DryRun& dry_run);

// What a run's steady steps had the disk do, and for how long a transfer was under way; the same
// of each direction of a separate device's link; and how long exchanges with other ranks were.
struct ObservedRates {
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  double busy_seconds = 0;
  CopyTime to_device = {};
  CopyTime to_host = {};
  double collective_seconds = 0;
  int64_t steps = 0;  // that all of this is of
};

// The clock with disk, link and exchanges as fast as observed; reading and writing keep their
// proportion, as do exchanges among themselves, and nothing else changes. The same rates where
// nothing was moved, or the plan has nothing moved. A pure function.
StepClock AtObservedRates(StepClock clock, const ObservedRates& observed);

// "0.52 s a step, at least 0.48 s, bound by the disk".
std::string DescribeForecast(const StepForecast& forecast);

}  // namespace spillway
