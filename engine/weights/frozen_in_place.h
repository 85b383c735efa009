// Finds the frozen weights that can be read in place, in the model's own files
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
  // Bytes that this rank has of the other frozen units, in the run's dtype.
  uint64_t copied_bytes = 0;
  uint64_t packed_bytes = 0;  // the part of copied_bytes in units with packed parameters
};

// A frozen unit is read in place if all of its parameters are tensors of files in the run's dtype;
// `grid`'s rank reads its shard of it. Exceptions are shards that are only padding, and files below
// `output`, where a run removes and replaces earlier exports ("": nowhere).
FrozenWeights FindFrozenInPlace(const ModelDescription& model, const ShardGrid& grid, DType dtype,
                                const WeightSource& weights, const std::string& output);

// The units of `in_place` for which `keep(unit)` is true.
InPlaceUnits OnlyUnits(const InPlaceUnits& in_place, const std::function<bool(int unit)>& keep);

}  // namespace spillway
