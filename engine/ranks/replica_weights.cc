#include "engine/ranks/replica_weights.h"

#include <algorithm>
#include <utility>

#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {

ReplicaWeights::ReplicaWeights(const StateLayout& layout, const ShardGrid& grid,
                               Collectives* replicas, char* memory, uint64_t memory_bytes,
                               Read read)
    : grid_(grid),
      replicas_(replicas),
      memory_(reinterpret_cast<float*>(memory)),
      part_parameters_(
          std::min(memory_bytes / (2 * sizeof(float) * replicas->size()), kMostPartParameters)),
      round_parameters_(part_parameters_ * replicas->size()),
      read_(std::move(read)) {
  SPILLWAY_CHECK(part_parameters_ > 0 && replicas->size() == grid.replicas());
  uint64_t rounds = 0;
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    const uint64_t parameters = layout.PaddedParameters(unit);
    unit_parameters_.push_back(parameters);
    first_round_.push_back(rounds);
    rounds += (parameters + round_parameters_ - 1) / round_parameters_;
  }
  first_round_.push_back(rounds);
}

ReplicaWeights::Round ReplicaWeights::RoundAt(uint64_t number) const {
  // Finds the last unit that begins there; those before it have no parameters.
  const auto after = std::upper_bound(first_round_.begin(), first_round_.end(), number);
  Round round;
  round.unit = static_cast<int>(after - first_round_.begin()) - 1;
  round.begin = (number - first_round_[round.unit]) * round_parameters_;
  round.count = std::min(round_parameters_, unit_parameters_[round.unit] - round.begin);
  return round;
}

absl::Status ReplicaWeights::TakeStretch(int unit, uint64_t begin, uint64_t count,
                                         const Take& take) {
  while (count > 0) {
    const uint64_t number = first_round_[unit] + begin / round_parameters_;
    const Round round = RoundAt(number);
    const uint64_t within = begin - round.begin;
    const uint64_t n = std::min(count, round.count - within);
    RETURN_IF_ERROR(AwaitRound(number));
    if (absl::Status status = take(begin, n, MemoryOf(number) + within); !status.ok()) {
      return Fail(status);
    }
    begin += n;
    count -= n;
    MutexLock lock(mutex_);
    left_[number % 2] -= n;
    if (left_[number % 2] == 0) changed_.NotifyAll();
  }
  return absl::OkStatus();
}

absl::Status ReplicaWeights::AwaitRound(uint64_t number) {
  {
    MutexLock lock(mutex_);
    while (true) {
      if (!failure_.ok()) return failure_;
      if (brought_ > number) return absl::OkStatus();
      if (brought_ == number && !bringing_ && left_[number % 2] == 0) break;
      changed_.Wait(mutex_);
    }
    bringing_ = true;
  }
  const absl::Status status = Bring(number);
  MutexLock lock(mutex_);
  bringing_ = false;
  if (status.ok()) {
    ++brought_;
    left_[number % 2] = RoundAt(number).count;
  } else if (failure_.ok()) {
    failure_ = status;
  }
  changed_.NotifyAll();
  return failure_;
}

absl::Status ReplicaWeights::Bring(uint64_t number) {
  const Round round = RoundAt(number);
  const uint64_t size = replicas_->size();
  const uint64_t part = (round.count + size - 1) / size;
  const uint64_t begin = std::min(round.count, part * replicas_->rank());
  const uint64_t own = std::min(part, round.count - begin);
  float* const all = MemoryOf(number);
  absl::Status read;
  if (own > 0) read = read_(round.unit, round.begin + begin, own, all + part * replicas_->rank());
  RETURN_IF_ERROR(AgreeOnRound(read));
  const absl::Status sent =
      AllGather(*replicas_, all + part * replicas_->rank(), all, part * sizeof(float));
  parted_ = !sent.ok();
  return sent;
}

absl::Status ReplicaWeights::AgreeOnRound(const absl::Status& own) {
  const auto codes = AllGatherCount(*replicas_, CodeForOthers(own));
  parted_ = true;
  RETURN_IF_ERROR(codes.status());
  for (int replica = 0; replica < replicas_->size(); ++replica) {
    const int64_t code = (*codes)[replica];
    if (code == 0) continue;
    // A failure is reported when all ranks agree on how the run begins.
    if (own.ok()) {
      return BecauseOf(replica * grid_.group + grid_.shard(), code,
                       "it can't write the initial state");
    }
    return own;
  }
  parted_ = false;
  return absl::OkStatus();
}

absl::Status ReplicaWeights::Fail(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = status;
  changed_.NotifyAll();
  return failure_;
}

void ReplicaWeights::Stop(const absl::Status& status) {
  const absl::Status failure = Fail(status);
  {
    MutexLock lock(mutex_);
    if (brought_ == first_round_.back()) return;
  }
  if (!parted_) AgreeOnRound(failure).IgnoreError();
}

}  // namespace spillway
