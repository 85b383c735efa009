#include "engine/datasets/target_dataset.h"

#include <utility>

#include "io/base/status.h"

namespace spillway {

absl::StatusOr<Batch> TargetDataset::Get(absl::Span<const int64_t> samples) {
  std::vector<std::vector<int64_t>> targets;
  for (const int64_t sample : samples) {
    ASSIGN_OR_RETURN(TextPair pair, Pair(sample));
    targets.push_back(std::move(pair.target));
  }
  return GetWith(samples, targets, 0);
}

}  // namespace spillway
