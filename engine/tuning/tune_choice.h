// Chooses the best of the measured settings: pure functions of tables of measurements.
//
// The speed of disks varies several-fold within an hour, and within a minute. So candidates are
// measured in rounds, every one once a round; a measurement counts as its ratio to the round's
// median, and a candidate as the median of its ratios. Candidates within kNoise of the best count
// as equal, and of those the cheapest wins.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/estimate/step_forecast.h"

namespace spillway {

// Smaller relative differences are noise.
inline constexpr double kNoise = 0.03;

// One figure for a candidate: the rate of moving equal numbers of bytes in reads alone, in writes
// alone, and in both together. REQUIRES: positive rates.
double Score(const DiskRates& rates);

// `scores`: [candidate][round], with equally many rounds each and at least one. Returns each
// candidate's median ratio, around 1.
std::vector<double> RelativeScores(const std::vector<std::vector<double>>& scores);

// The index of the winner. `cost[i]` decides among equals, the least first; of equal costs the
// first candidate wins.
size_t ChooseCandidate(const std::vector<double>& relative_scores,
                       const std::vector<uint64_t>& cost);

double Median(std::vector<double> values);
// The median of each rate.
DiskRates MedianRates(const std::vector<DiskRates>& rates);

}  // namespace spillway
