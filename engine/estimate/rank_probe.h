// What a forecast needs to know of several ranks: how fast they exchange, measured on their own
// conversations; and one clock for all of them, the first one's, since they must plan alike.
//
// All ranks call these together, before anything else is said in the conversations. An error is
// one of these: then no conversation goes on.
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

// The first rank's clock (none where it has none, or measures nothing) and times of compute, on
// every rank.
absl::Status TakeFirstRanksClock(Collectives& world, std::optional<StepClock>& clock,
                                 DryRun& dry_run);

struct CollectiveProbe {
  GradientSumOptions sums;
  OptimizerSpec optimizer;  // whose tiles round
  DType dtype = DType::kBFloat16;
  StateLayout layout;             // of a rank's shard
  uint64_t memory_bytes = 0;      // that it may take beside the buckets
  uint64_t most_bytes = 8 << 20;  // of a unit's weights or sums, in one exchange
  Device* device = nullptr;       // in whose memory units are whole; null: in the host's
};

// Gathers and sums as a step does, larger and larger until one takes a few hundredths of a second,
// and exchanges some numbers. The first rank's figures, on every rank.
absl::StatusOr<CollectiveRates> MeasureCollectives(const CollectiveProbe& probe,
                                                   const RankGroups& ranks);

// Of the first rank's profile, or measured now and kept there (engine/estimate/machine_profile.h).
// REQUIRES: the first rank's SPILLWAY_PROFILE is not off.
absl::StatusOr<CollectiveRates> FindCollectiveRates(const CollectiveProbe& probe,
                                                    const RankGroups& ranks);

// Of this machine's profile, for ranks that are all on it; none where nobody has measured them.
std::optional<CollectiveRates> KeptCollectiveRates(const GradientSumOptions& sums,
                                                   bool gpus = false);

}  // namespace spillway
