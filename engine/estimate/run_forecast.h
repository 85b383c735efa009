// A plan's forecast on this machine: what is not known of it yet is measured, in about a
// second at most, and disks' rates are kept (engine/estimate/machine_profile.h).
#pragma once

#include <optional>
#include <string>

#include "engine/estimate/step_forecast.h"
#include "engine/step_compute.h"
#include "engine/train_options.h"
#include "swap/swap_plan.h"

namespace spillway {

// None where SPILLWAY_PROFILE=off, where `dry_run` has no times, or where a swap path can't
// be measured; that is logged and no error. options.threads is resolved; swap paths exist
// where the plan uses them. Takes no more memory than the plan's arenas will, but for a few
// MiB where those are smaller.
std::optional<StepForecast> ForecastRun(const SwapPlan& plan, const TrainOptions& options,
                                        const DryRun& dry_run, int workers);

// "0.52 s a step, at least 0.48 s, bound by disk".
std::string DescribeForecast(const StepForecast& forecast);

}  // namespace spillway
