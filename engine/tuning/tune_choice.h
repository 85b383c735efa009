// Which of the measured settings is best: pure functions of tables of measurements.
//
// Disks swing several-fold within an hour, and within a minute. So candidates are measured in
// rounds, every one once a round; a measurement counts as its ratio to the round's median,
// and a candidate as the median of its ratios. Whoever is within kNoise of the best counts
// as equal, and of equals the one that takes the least wins.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/estimate/step_forecast.h"

namespace spillway {

// What differs by less says nothing.
inline constexpr double kNoise = 0.03;

// One figure for a candidate: the rate of moving as many bytes in reads alone, in writes
// alone, and in both together. REQUIRES: positive rates.
double Score(const DiskRates& rates);

// [candidate][round] of scores, as many rounds each and at least one; the candidates' medians
// of ratios, around 1.
std::vector<double> RelativeScores(const std::vector<std::vector<double>>& scores);

// The index of the winner. `cost[i]`: what of equals decides, the least first; of equal costs
// the first candidate.
size_t ChooseCandidate(const std::vector<double>& relative_scores,
                       const std::vector<uint64_t>& cost);

double Median(std::vector<double> values);
// The median of each rate.
DiskRates MedianRates(const std::vector<DiskRates>& rates);

}  // namespace spillway
