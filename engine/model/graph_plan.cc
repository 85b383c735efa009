#include "engine/model/graph_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/format_bytes.h"

namespace spillway {

int GraphPlan::kept() const {
  return static_cast<int>(std::count(keeps.begin(), keeps.end(), true));
}

std::string GraphPlan::Summary() const {
  const int layers = std::max(0, static_cast<int>(keeps.size()) - 1);
  const std::string of_layers = absl::StrCat(layers, layers == 1 ? " layer" : " layers");
  if (kept() == 0) return absl::StrCat("  recompute  ", of_layers, " before their backward");
  return absl::StrCat("  recompute  ", kept() == layers ? "none" : absl::StrCat(layers - kept()),
                      " of ", of_layers, kept() == layers ? "; their" : "; the others'",
                      " activations take ", FormatBytes(bytes), " of device memory");
}

GraphPlan PlanGraphs(const std::vector<Tier>& inputs, const GraphCosts& costs,
                     uint64_t room_bytes) {
  const int units = static_cast<int>(inputs.size());
  GraphPlan plan;
  plan.keeps.assign(units, false);
  if (costs.bytes.empty()) return plan;
  SPILLWAY_CHECK(costs.bytes.size() == plan.keeps.size() &&
                 costs.seconds_saved.size() == plan.keeps.size());
  const uint64_t room = room_bytes - std::min(room_bytes, costs.reuse_bytes);
  std::vector<int> order;
  for (int unit = units - 2; unit >= 0; --unit) order.push_back(unit);
  // Compares seconds per byte without dividing: a graph may take 0 bytes.
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return costs.seconds_saved[a] * static_cast<double>(costs.bytes[b]) >
           costs.seconds_saved[b] * static_cast<double>(costs.bytes[a]);
  });
  for (int unit : order) {
    if (inputs[unit] != Tier::kDevice) continue;
    const uint64_t bytes = plan.bytes + costs.bytes[unit];
    // The order of allocations differs a little from the dry run's, here too.
    if (bytes > 0 && bytes + bytes / 16 > room) continue;
    plan.keeps[unit] = true;
    plan.bytes = bytes;
    plan.seconds_saved += costs.seconds_saved[unit];
  }
  return plan;
}

}  // namespace spillway
