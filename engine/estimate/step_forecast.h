// How long a step should take, and what it can't be faster than: from what a plan moves and
// what the machine can do. Pure functions of values; any thread.
//
// A phase takes at least as long as its busiest resource:
//   disk      the longest of bytes read / read rate, written / write rate, all / mixed rate
//   compute   the arithmetic of the model's layers
//   update    memory that rounding and the optimizer touch / the rate of all workers, or of the
//             device where that does it; both work at the same time
//   copy      the longer of bytes to a separate device / the link's rate there, and from there
//   collective  what ranks exchange, one thing after another
// What is predicted adds what can't overlap: workers that share cores with compute slow it down
// by the cores they take. Transfers are taken to overlap everything else within a phase.
//
// The bound of a step is less than the sum of its phases' where one phase's work can run beside
// another's. It is the longer of two times that nothing gets round:
//   - what the busiest resource takes for the whole step;
//   - backward's compute, and what goes before it. Every weight is there before the loss, so
//     the updates that wait for a step's end lie between that and the next loss, and so does
//     the forward's traffic, but for what memory holds across these two points: as much as it
//     has room for is read early, and as much written late. With several ranks what is exchanged
//     for the forward lies there, too, and before all of it the sums of the last gradients, which
//     no computation of either step runs beside.
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

// "disk", "compute", "update", "copy", "collective": as in metrics.jsonl.
absl::string_view ResourceName(Resource resource);
// For people: "the disk", "computing", "the optimizer's updates", "copies to and from the GPU",
// "exchanges between ranks".
absl::string_view ResourceWords(Resource resource);

struct ForecastInput {
  std::array<PhaseTraffic, kPhases> traffic;
  DiskRates disk;                             // need not be set where nothing is read or written
  LinkRates link;                             // nor this where nothing is copied
  double update_bytes_per_second = 0;         // of all workers together, likewise
  double device_update_bytes_per_second = 0;  // of a separate device, likewise
  double forward_seconds = 0;                 // compute, alone on the machine
  double backward_seconds = 0;                // with the loss
  std::array<double, kPhases> collective_seconds{};  // of exchanges that begin in each phase
  // Of the time that workers take, how much is taken from compute: 0 with cores of their own
  // for all of them, workers / cores where compute uses every core.
  double shared_cores = 0;
  // What memory has room for, of what a phase reads for the next or leaves it to write.
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
  double bound_seconds = 0;  // at most the sum of the phases'
  double predicted_seconds = 0;
  // Of the whole step: what binds the phases that together take longest.
  Resource binding = Resource::kCompute;
};

// REQUIRES: rates are positive where the traffic needs them.
StepForecast Forecast(const ForecastInput& input);

// {"forward": "disk", "backward": "compute", "flush": "disk"}.
nlohmann::json BindingJson(const StepForecast& forecast);

// How long what binds each phase was busy in it, summed: `busy` as measured, by phase.
double BindingSeconds(const StepForecast& forecast,
                      const std::array<ResourceSeconds, kPhases>& busy);

// ForecastInput::shared_cores.
double SharedCores(int cores, int compute_threads, int workers);

}  // namespace spillway
