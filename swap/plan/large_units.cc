#include "swap/plan/large_units.h"

#include <algorithm>
#include <iterator>

namespace spillway {

LargeUnits::LargeUnits(const StateLayout& layout, const StepSchedule& schedule) {
  std::vector<uint64_t> sizes;
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    sizes.push_back(layout.PaddedParameters(unit));
  }
  if (sizes.empty()) return;
  const auto middle = sizes.begin() + static_cast<ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  const uint64_t most = *middle + *middle / 2;
  const auto large = [&](const std::vector<int>& units) {
    return std::any_of(units.begin(), units.end(),
                       [&](int unit) { return layout.PaddedParameters(unit) > most; });
  };
  const int num_ops = static_cast<int>(schedule.ops.size());
  std::vector<int> ops;
  for (int op = 0; op < num_ops; ++op) {
    if (large(schedule.ops[op].weights) || large(schedule.ops[op].gradients)) ops.push_back(op);
  }
  if (ops.empty()) return;
  for (int op = 0; op < num_ops; ++op) {
    const auto next = std::lower_bound(ops.begin(), ops.end(), op);
    const int after = next != ops.end() ? *next : ops.front() + num_ops;
    const int before = next != ops.begin() ? *std::prev(next) : ops.back() - num_ops;
    until_.push_back(std::max(0, after - op - 1));
    since_.push_back(after == op ? 0 : op - before - 1);
  }
}

}  // namespace spillway
