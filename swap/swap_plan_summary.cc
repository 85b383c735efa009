// What a plan says of itself.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "swap/format_bytes.h"
#include "swap/swap_plan.h"

namespace spillway {

absl::string_view TierName(Tier tier) {
  switch (tier) {
    case Tier::kDevice:
      return "device";
    case Tier::kHost:
      return "host";
    case Tier::kNvme:
      return "nvme";
  }
  return "?";
}

PlanResidency SwapPlan::Residency() const {
  PlanResidency bytes;
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    const UnitPlacement& placement = placements[unit];
    const uint64_t parameters = layout.PaddedParameters(unit);
    bytes.weights[static_cast<int>(placement.weight)] += parameters * layout.PlaneRangeBytes(0, 1);
    bytes.optimizer[static_cast<int>(placement.optimizer)] +=
        parameters * layout.PlaneRangeBytes(1, layout.num_planes());
    if (schedule.update != UpdateMode::kDeferred) continue;
    bytes.gradients[static_cast<int>(placement.gradient)] +=
        parameters * layout.gradient_bytes_per_parameter();
  }
  return bytes;
}

std::string SwapPlan::Summary() const {
  const PlanResidency bytes = Residency();
  std::string text;
  const bool deferred = schedule.update == UpdateMode::kDeferred;
  const std::pair<const char*, const uint64_t*> kinds[] = {
      {"weights", bytes.weights}, {"optimizer", bytes.optimizer}, {"gradients", bytes.gradients}};
  for (const auto& [kind, by_tier] : kinds) {
    if (by_tier == bytes.gradients && !deferred) continue;
    absl::StrAppendFormat(&text, "  %-10s", kind);
    bool first = true;
    for (Tier tier : {Tier::kDevice, Tier::kHost, Tier::kNvme}) {
      const uint64_t n = by_tier[static_cast<int>(tier)];
      if (n == 0) continue;
      absl::StrAppend(&text, first ? "" : ", ", FormatBytes(n), " ", TierName(tier));
      first = false;
    }
    absl::StrAppend(&text, first ? "none\n" : "\n");
  }
  absl::StrAppend(&text, "  updates   ",
                  deferred ? "deferred: in the next forward, after the global norm"
                           : "immediate: as each gradient is complete",
                  "\n  buffers   ", FormatBytes(host_arena_bytes), " host arena, ", tile_buffers,
                  " tiles in flight, weights fetched ", lookahead, " operations ahead\n",
                  "  traffic   ", FormatBytes(traffic.read_bytes), " read and ",
                  FormatBytes(traffic.written_bytes), " written on NVMe per step\n");
  return text;
}

}  // namespace spillway
