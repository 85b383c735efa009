#include "engine/ranks/collective_traffic.h"

namespace spillway {

CollectiveTraffic CollectiveBytes(const ShardedSchedule& schedule, const GradientSumOptions& sums) {
  const uint64_t group = sums.grid.group, replicas = sums.grid.replicas();
  const uint64_t exchanged = sums.exchange_bf16 ? sizeof(uint16_t) : sizeof(float);
  CollectiveTraffic traffic;
  for (const WholeStay& stay : schedule.weights) {
    traffic.gather_bytes += stay.bytes / group * (group - 1);
  }
  for (const WholeStay& stay : schedule.sums) {
    const uint64_t shard = stay.bytes / sizeof(float) / group;
    const uint64_t portion = shard / replicas;
    traffic.sum_bytes += shard * exchanged * (group - 1);
    // Portions to whom sums them, and their fp32 sums back.
    traffic.sum_bytes += portion * (exchanged + sizeof(float)) * (replicas - 1);
  }
  return traffic;
}

}  // namespace spillway
