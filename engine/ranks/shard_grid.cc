#include "engine/ranks/shard_grid.h"

#include "swap/plan/state_layout.h"

namespace spillway {

uint64_t ShardGrid::UnitParameters(uint64_t parameters) const {
  const uint64_t step = kParameterAlignment * size;
  return (parameters + step - 1) / step * step;
}

}  // namespace spillway
