#include "engine/tuning/tune_choice.h"

#include <algorithm>

#include "io/base/check.h"

namespace spillway {

double Score(const DiskRates& rates) {
  SPILLWAY_CHECK(rates.read_bytes_per_second > 0 && rates.write_bytes_per_second > 0 &&
                 rates.mixed_bytes_per_second > 0);
  return 3 / (1 / rates.read_bytes_per_second + 1 / rates.write_bytes_per_second +
              1 / rates.mixed_bytes_per_second);
}

double Median(std::vector<double> values) {
  SPILLWAY_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

DiskRates MedianRates(const std::vector<DiskRates>& rates) {
  const auto median = [&](double DiskRates::*rate) {
    std::vector<double> values;
    for (const DiskRates& each : rates) values.push_back(each.*rate);
    return Median(std::move(values));
  };
  DiskRates result;
  result.read_bytes_per_second = median(&DiskRates::read_bytes_per_second);
  result.write_bytes_per_second = median(&DiskRates::write_bytes_per_second);
  result.mixed_bytes_per_second = median(&DiskRates::mixed_bytes_per_second);
  return result;
}

std::vector<double> RelativeScores(const std::vector<std::vector<double>>& scores) {
  SPILLWAY_CHECK(!scores.empty() && !scores[0].empty());
  const size_t rounds = scores[0].size();
  std::vector<double> round_medians;
  for (size_t round = 0; round < rounds; ++round) {
    std::vector<double> all;
    for (const auto& candidate : scores) {
      SPILLWAY_CHECK(candidate.size() == rounds && candidate[round] > 0);
      all.push_back(candidate[round]);
    }
    round_medians.push_back(Median(std::move(all)));
  }
  std::vector<double> relative;
  for (const auto& candidate : scores) {
    std::vector<double> ratios;
    for (size_t round = 0; round < rounds; ++round) {
      ratios.push_back(candidate[round] / round_medians[round]);
    }
    relative.push_back(Median(std::move(ratios)));
  }
  return relative;
}

size_t ChooseCandidate(const std::vector<double>& relative_scores,
                       const std::vector<uint64_t>& cost) {
  SPILLWAY_CHECK(!relative_scores.empty() && relative_scores.size() == cost.size());
  const double best = *std::max_element(relative_scores.begin(), relative_scores.end());
  size_t chosen = relative_scores.size();
  for (size_t i = 0; i < relative_scores.size(); ++i) {
    if (relative_scores[i] < (1 - kNoise) * best) continue;
    if (chosen == relative_scores.size() || cost[i] < cost[chosen]) chosen = i;
  }
  return chosen;
}

}  // namespace spillway
