// How fast ranks exchange weights and gradients, and a plan's clock from that. Plain values.
#pragma once

#include <string>
#include <vector>

#include "engine/ranks/gradient_sums.h"
#include "engine/ranks/sharded_schedule.h"
#include "swap/plan/step_clock.h"

namespace spillway {

// Of the bytes that a rank sends, and what an exchange takes however small it is.
struct CollectiveRates {
  double gather_bytes_per_second = 0;  // need not be set where every rank has all weights
  double sum_bytes_per_second = 0;     // with the arithmetic
  double latency_seconds = 0;

  friend bool operator==(const CollectiveRates&, const CollectiveRates&) = default;
};

// What is taken where nobody has measured any: a network card of 10 Gbit/s.
inline constexpr CollectiveRates kAssumedRates = {1.25e9, 1.25e9, 1e-4};

// "0.39 GB/s gathered, 0.092 GB/s summed, 0.14 ms each"; a gather rate of 0 is left out.
std::string RatesText(const CollectiveRates& rates);

// `compute_seconds`: [op of schedule.compute], alone on the machine.
CollectiveClock ClockOfRanks(const ShardedSchedule& schedule, const GradientSumOptions& sums,
                             const std::vector<double>& compute_seconds,
                             const CollectiveRates& rates);

}  // namespace spillway
