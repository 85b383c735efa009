// Rates of exchanges between ranks for forecasts, measured on the ranks' own conversations; and one
// clock for all of them, the first rank's, since they must make equal plans.
//
// All ranks call these functions together, before anything else is sent in the conversations. After
// an error of one of these no conversation can continue.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/step_compute.h"
#include "engine/numeric/optimizer_spec.h"
#include "engine/ranks/collective_rates.h"
#include "engine/ranks/collectives.h"

namespace spillway {

// Copies the first rank's clock (none if it has none, or does not measure) and times of compute to
// every rank.
absl::Status TakeFirstRanksClock(Collectives& world, std::optional<StepClock>& clock,
                                 DryRun& dry_run);

struct CollectiveProbe {
  GradientSumOptions sums;
  OptimizerSpec optimizer;  // its tiles are rounded
  DType dtype = DType::kBFloat16;
  StateLayout layout;             // of a rank's shard
  uint64_t memory_bytes = 0;      // memory that it may use beside the buckets
  uint64_t most_bytes = 8 << 20;  // largest exchange of a unit's weights or sums
  Device* device = nullptr;       // has the whole units in its memory; null: the host has them
};

// Measures gathers and sums as in a step, larger and larger until one takes a few hundredths of a
// second, and exchanges some numbers. Returns the first rank's figures on every rank.
absl::StatusOr<CollectiveRates> MeasureCollectives(const CollectiveProbe& probe,
                                                   const RankGroups& ranks);

// The rates in the first rank's profile, or measured now and saved there
// (engine/estimate/machine_profile.h). REQUIRES: the first rank's SPILLWAY_PROFILE is not off.
absl::StatusOr<CollectiveRates> FindCollectiveRates(const CollectiveProbe& probe,
                                                    const RankGroups& ranks);

// The rates in this machine's profile, for ranks that are all on it; none if not measured yet.
std::optional<CollectiveRates> KeptCollectiveRates(const GradientSumOptions& sums,
                                                   bool gpus = false);

}  // namespace spillway
