#include "swap/plan/swap_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/format_bytes.h"

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

bool SwapPlan::any_nvme() const {
  const auto in_store = [](const UnitPlacement& placement) { return placement.any_nvme(); };
  return std::any_of(placements.begin(), placements.end(), in_store) ||
         std::count(spill_room.gradients.begin(), spill_room.gradients.end(), true) > 0 ||
         std::any_of(spill_room.activation_bytes.begin(), spill_room.activation_bytes.end(),
                     [](uint64_t bytes) { return bytes > 0; });
}

int SwapPlan::turn_tiles() const {
  int tiles = 0;
  for (const TurnStay& stay : turn_stays) tiles += stay.tiles;
  return tiles;
}

PlanResidency SwapPlan::Residency() const {
  PlanResidency bytes;
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    const UnitPlacement& placement = placements[unit];
    const uint64_t parameters = layout.PaddedParameters(unit);
    bytes.weights[static_cast<int>(placement.weight)] += layout.UnitPlanesBytes(unit, 0, 1);
    bytes.optimizer[static_cast<int>(placement.optimizer)] +=
        layout.UnitPlanesBytes(unit, 1, layout.NumPlanes(unit));
    bytes.activations[static_cast<int>(activations[unit])] += activation_bytes[unit];
    if (!deferred[unit]) continue;
    bytes.gradients[static_cast<int>(placement.gradient)] +=
        parameters * layout.gradient_bytes_per_parameter();
  }
  return bytes;
}

uint64_t SwapPlan::UpdateBytesRead(int unit) const {
  // Nothing where the weight alone is in the store, and at hand.
  const int first = FirstPlaneRead(unit), last = placements[unit].last_nvme_plane;
  return first < last ? layout.UnitPlanesBytes(unit, first, last) : 0;
}

uint64_t SwapPlan::UpdateBytesWritten(int unit) const {
  const UnitPlacement& placement = placements[unit];
  return layout.UnitPlanesBytes(unit, placement.first_nvme_plane, placement.last_nvme_plane);
}

std::string SwapPlan::Summary() const {
  const PlanResidency bytes = Residency();
  std::string text;
  const auto append_tiers = [&](const uint64_t* by_tier, std::initializer_list<Tier> tiers) {
    bool first = true;
    for (Tier tier : tiers) {
      const uint64_t n = by_tier[static_cast<int>(tier)];
      if (n == 0) continue;
      absl::StrAppend(&text, first ? "" : ", ", FormatBytes(n), " ", TierName(tier));
      first = false;
    }
    absl::StrAppend(&text, first ? "none\n" : "\n");
  };
  const auto waiting = std::count(deferred.begin(), deferred.end(), true);
  const std::pair<const char*, const uint64_t*> kinds[] = {
      {"weights", bytes.weights}, {"optimizer", bytes.optimizer}, {"gradients", bytes.gradients}};
  for (const auto& [kind, by_tier] : kinds) {
    if (by_tier == bytes.gradients && waiting == 0) continue;
    absl::StrAppendFormat(&text, "  %-11s", kind);
    append_tiers(by_tier, {Tier::kDevice, Tier::kHost, Tier::kNvme});
  }
  const auto spilled = std::count_if(activations.begin(), activations.end(),
                                     [](Tier tier) { return tier != Tier::kDevice; });
  if (spilled > 0) {
    absl::StrAppend(&text, "  spilled    activations of ", spilled, " of ", layout.num_units(),
                    " units: ");
    append_tiers(bytes.activations, {Tier::kHost, Tier::kNvme});
  }
  absl::StrAppend(&text, "  updates    ",
                  schedule.measures.states > 0
                      ? "deferred: in the next forward, after all state was read and measured"
                  : schedule.measures.gradients > 0
                      ? "deferred: in the next forward, after all gradients were measured"
                  : schedule.update == UpdateMode::kDeferred
                      ? "deferred: in the next forward, after the global norm"
                      : "immediate: as each gradient is complete");
  if (schedule.update == UpdateMode::kImmediate && waiting > 0) {
    absl::StrAppend(&text, ", ", waiting, " of ", layout.num_units(), " in the next forward");
  }
  const auto streamed = std::count(streams_update.begin(), streams_update.end(), true);
  if (separate_device && streamed == 0) {
    absl::StrAppend(&text, "\n             ", UpdatesOnDevice(0) ? "on the device" : "on the host");
  } else if (streamed > 0) {
    absl::StrAppend(&text, "\n             ", streamed, " of ", layout.num_units(),
                    " units through the device, ", device_tile_spans.size(), " tiles at once",
                    streamed < layout.num_units() ? ", the others on the host" : "");
  }
  absl::StrAppend(
      &text, "\n  buffers    ", FormatBytes(host_arena_bytes), " host arena, ", tile_buffers,
      " tiles in flight",
      turn_tiles() > 0 ? absl::StrCat(" (", tile_buffers + turn_tiles(), " between two steps)")
                       : "",
      ", weights fetched ", lookahead, " operations ahead",
      forward_lookahead > lookahead ? absl::StrCat(" (", forward_lookahead, " in the forward)")
                                    : "",
      apart_lookahead > std::max(lookahead, forward_lookahead)
          ? absl::StrCat(", up to ", apart_lookahead, " away from the largest units")
          : "",
      "\n", "  traffic    ", FormatBytes(traffic.read_bytes), " read and ",
      FormatBytes(traffic.written_bytes), " written on NVMe per step\n");
  return text;
}

}  // namespace spillway
