#include "engine/ranks/collective_rates.h"

#include "absl/strings/str_format.h"
#include "engine/ranks/collective_traffic.h"
#include "io/base/check.h"

namespace spillway {
namespace {

// Number of agreements, one after the other, between a step and the next if updates wait for the
// norm: its two numbers, whether to stop, the labels.
constexpr int kAgreementsAtTheTurn = 4;

}  // namespace

std::string RatesText(const CollectiveRates& rates) {
  std::string text;
  if (rates.gather_bytes_per_second > 0) {
    absl::StrAppendFormat(&text, "%.3g GB/s gathered, ", rates.gather_bytes_per_second * 1e-9);
  }
  absl::StrAppendFormat(&text, "%.3g GB/s summed, %.3g ms each", rates.sum_bytes_per_second * 1e-9,
                        rates.latency_seconds * 1e3);
  return text;
}

CollectiveClock ClockOfRanks(const ShardedSchedule& schedule, const GradientSumOptions& sums,
                             const std::vector<double>& compute_seconds,
                             const CollectiveRates& rates) {
  const std::vector<StepOp>& ops = schedule.compute.ops;
  SPILLWAY_CHECK(compute_seconds.size() == ops.size());
  CollectiveClock clock;
  for (size_t op = 0; op < ops.size(); ++op) {
    clock.computations.push_back(
        {compute_seconds[op], schedule.needs_actions[op], ops[op].kind == OpKind::kForward});
  }
  const std::vector<ActionTraffic> traffic = TrafficByAction(schedule, sums);
  for (size_t i = 0; i < traffic.size(); ++i) {
    const ShardAction& action = schedule.actions[i];
    const double rate = action.kind == ShardAction::Kind::kSum ? rates.sum_bytes_per_second
                                                               : rates.gather_bytes_per_second;
    clock.after.push_back(action.after_ops);
    clock.seconds.push_back(traffic[i].exchanges * rates.latency_seconds +
                            SecondsAt(rate, static_cast<double>(traffic[i].bytes)));
  }
  if (schedule.compute.update == UpdateMode::kDeferred) {
    clock.seconds.back() += kAgreementsAtTheTurn * rates.latency_seconds;
  }
  return clock;
}

}  // namespace spillway
