// Rates at which ranks exchange weights and gradients, and the plan's clock made from them. Plain
// values.
#pragma once

#include <string>
#include <vector>

#include "engine/ranks/gradient_sums.h"
#include "engine/ranks/sharded_schedule.h"
#include "swap/plan/step_clock.h"

namespace spillway {

// Rates in bytes that one rank sends, and the fixed time of one exchange.
struct CollectiveRates {
  double gather_bytes_per_second = 0;  // need not be set if every rank has all weights
  double sum_bytes_per_second = 0;     // including the arithmetic
  double latency_seconds = 0;

  friend bool operator==(const CollectiveRates&, const CollectiveRates&) = default;
};

// Default for ranks that have not been measured: a network card of 10 Gbit/s.
inline constexpr CollectiveRates kAssumedRates = {1.25e9, 1.25e9, 1e-4};

// Returns "0.39 GB/s gathered, 0.092 GB/s summed, 0.14 ms each"; a gather rate of 0 is left out.
std::string RatesText(const CollectiveRates& rates);

// `compute_seconds`: [op of schedule.compute], the seconds of each operation alone on the machine.
CollectiveClock ClockOfRanks(const ShardedSchedule& schedule, const GradientSumOptions& sums,
                             const std::vector<double>& compute_seconds,
                             const CollectiveRates& rates);

}  // namespace spillway
