#include "engine/ranks/collective_traffic.h"

namespace spillway {
namespace {

int BucketsOf(const GradientSumOptions& sums, uint64_t parameters) {
  return static_cast<int>((parameters + sums.bucket_parameters - 1) / sums.bucket_parameters);
}

// Bytes of `parameters` values in the exchange format, sent to one rank.
uint64_t BytesOf(const GradientSumOptions& sums, uint64_t parameters) {
  const uint64_t bucket = sums.bucket_parameters;
  return parameters / bucket * ExchangedBytes(sums.format, bucket) +
         ExchangedBytes(sums.format, parameters % bucket);
}

}  // namespace

ActionTraffic GatherTraffic(const ShardGrid& grid, uint64_t whole_bytes) {
  const uint64_t group = grid.group;
  return {whole_bytes / group * (group - 1), group > 1 ? 1 : 0};
}

ActionTraffic SumTraffic(const GradientSumOptions& sums, uint64_t shard_parameters) {
  const uint64_t group = sums.grid.group, replicas = sums.grid.replicas();
  ActionTraffic traffic;
  if (group > 1) {
    traffic.bytes += BytesOf(sums, shard_parameters) * (group - 1);
    traffic.exchanges += BucketsOf(sums, shard_parameters);
  }
  if (replicas > 1) {
    // Each portion goes to the rank that sums it, and the fp32 sums come back.
    const uint64_t portion = shard_parameters / replicas;
    traffic.bytes += (BytesOf(sums, portion) + portion * sizeof(float)) * (replicas - 1);
    traffic.exchanges += BucketsOf(sums, portion) + 1;
  }
  return traffic;
}

std::vector<ActionTraffic> TrafficByAction(const ShardedSchedule& schedule,
                                           const GradientSumOptions& sums) {
  std::vector<ActionTraffic> traffic;
  for (const ShardAction& action : schedule.actions) {
    traffic.emplace_back();
    if (action.kind == ShardAction::Kind::kGather) {
      traffic.back() = GatherTraffic(sums.grid, schedule.weights[action.stay].bytes);
    } else if (action.kind == ShardAction::Kind::kSum) {
      const uint64_t whole = schedule.sums[action.stay].bytes / sizeof(float);
      traffic.back() = SumTraffic(sums, whole / sums.grid.group);
    }
  }
  return traffic;
}

CollectiveTraffic CollectiveBytes(const ShardedSchedule& schedule, const GradientSumOptions& sums) {
  const std::vector<ActionTraffic> traffic = TrafficByAction(schedule, sums);
  CollectiveTraffic total;
  for (size_t i = 0; i < traffic.size(); ++i) {
    const bool sum = schedule.actions[i].kind == ShardAction::Kind::kSum;
    (sum ? total.sum_bytes : total.gather_bytes) += traffic[i].bytes;
  }
  return total;
}

}  // namespace spillway
