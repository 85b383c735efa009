// Forecasts the time of a step and its lower bound, from the bytes of a plan and the rates of the
// machine. Pure functions of values; any thread.
//
// A phase takes at least as long as its busiest resource:
//   disk      the longest of bytes read / read rate, written / write rate, all / mixed rate
//   compute   the arithmetic of the model's layers
//   update    memory that rounding and the optimizer touch / the rate of all workers, or of the
//             device where that does it; both work at the same time
//   copy      the longer of bytes to a separate device / the link's rate there, and from there
//   collective  what ranks exchange, one thing after another
// The prediction adds what cannot overlap: workers that share cores with compute slow it down by
// the cores they use. Transfers are assumed to overlap everything else within a phase.
//
// The bound of a step is less than the sum of its phases' bounds if work of one phase can run
// beside another's. It is the longer of two times:
// - the busiest resource's time for the whole step;
// - backward's compute, and what precedes it. Every weight arrives before the loss, so the updates
// that wait for a step's end lie between that and the next loss, and so does the forward's traffic,
// except what memory holds across these two points: its free space is filled early, or written
// late. With several ranks the exchanges for the forward also lie there, preceded by the sums of
// the last gradients, which no computation of either step overlaps.
#pragma once

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"
#include "swap/plan/phase_traffic.h"
#include "swap/plan/step_clock.h"

namespace spillway {

enum class Resource : uint8_t { kDisk, kCompute, kUpdate, kCopy, kCollective };
inline constexpr int kResourceCount = 5;

// The name in metrics.jsonl: "disk", "compute", "update", "copy" or "collective".
absl::string_view ResourceName(Resource resource);
// The name for people: "the disk", "computing", "the optimizer's updates", "copies to and from the
// GPU", "exchanges between ranks".
absl::string_view ResourceWords(Resource resource);

struct ForecastInput {
  std::array<PhaseTraffic, kPhases> traffic;
  DiskRates disk;                             // need not be set if nothing is read or written
  LinkRates link;                             // need not be set if nothing is copied
  double update_bytes_per_second = 0;         // of all workers together, likewise
  double device_update_bytes_per_second = 0;  // of a separate device, likewise
  double forward_seconds = 0;                 // compute alone on the machine
  double backward_seconds = 0;                // including the loss
  std::array<double, kPhases> collective_seconds{};  // exchanges that begin in each phase
  // Part of the workers' time that is taken from compute: 0 if all have cores of their own, workers
  // / cores if compute uses every core.
  double shared_cores = 0;
  // Memory for bytes that a phase reads for the next one or leaves to it to write.
  uint64_t carried_bytes = 0;
};

// Seconds by Resource.
using ResourceSeconds = std::array<double, kResourceCount>;

struct PhaseForecast {
  double disk_seconds = 0;
  double compute_seconds = 0;
  double update_seconds = 0;
  double copy_seconds = 0;
  double collective_seconds = 0;
  Resource binding = Resource::kCompute;
  double bound_seconds = 0;
  double predicted_seconds = 0;

  double SecondsOf(Resource resource) const;
};

struct StepForecast {
  std::array<PhaseForecast, kPhases> phases;
  double bound_seconds = 0;  // at most the sum of the phases' bounds
  double predicted_seconds = 0;
  // For the whole step: the resource that binds the phases which together take longest.
  Resource binding = Resource::kCompute;
};

// REQUIRES: rates are positive where the traffic needs them.
StepForecast Forecast(const ForecastInput& input);

// {"forward": "disk", "backward": "compute", "flush": "disk"}.
nlohmann::json BindingJson(const StepForecast& forecast);

// Busy time of the resource that binds each phase, summed. `busy`: measured, by phase.
double BindingSeconds(const StepForecast& forecast,
                      const std::array<ResourceSeconds, kPhases>& busy);

// Value of ForecastInput::shared_cores.
double SharedCores(int cores, int compute_threads, int workers);

}  // namespace spillway
