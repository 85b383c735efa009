// Which frozen weights can be read where they lie, in the model's own files
// (swap/store/in_place.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/model/model_description.h"
#include "engine/ranks/shard_grid.h"
#include "engine/weights/weight_source.h"
#include "swap/store/in_place.h"

namespace spillway {

struct FrozenWeights {
  InPlaceUnits in_place;
  // Of the other frozen units: what this rank has of their parameters, in the run's dtype.
  uint64_t copied_bytes = 0;
  uint64_t packed_bytes = 0;  // and of those that have something packed
};

// A frozen unit is read in place where all of its parameters are tensors of files, in the run's
// dtype; of it `grid`'s rank has its shard. Units whose shard is nothing but padding are not, nor
// those with a file below `output`, where a run removes and replaces what it once exported ("":
// nowhere).
FrozenWeights FindFrozenInPlace(const ModelDescription& model, const ShardGrid& grid, DType dtype,
                                const WeightSource& weights, const std::string& output);

// Those units of `in_place` for which `keep(unit)`.
InPlaceUnits OnlyUnits(const InPlaceUnits& in_place, const std::function<bool(int unit)>& keep);

}  // namespace spillway
