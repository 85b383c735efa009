// Masters in fp32, out of and into the planes in which a run keeps them.
#pragma once

#include <cstdint>

#include "engine/numeric/update_kind.h"
#include "swap/plan/state_layout.h"

namespace spillway {

// How a run with these planes keeps its masters.
WeightFormat MasterFormat(const StateLayout& layout, DType dtype);

// Elements [first, first + count) of a tile whose planes are `planes`, weight first
// (bf16: weight and residual; fp16: weight and master; fp32: weight). Of a frozen parameter, and
// where no masters are kept, the other is null: then the weight is all that is read or written.
void LoadMaster(WeightFormat format, char* const* planes, uint64_t first, uint64_t count,
                float* out);

// The same the other way; the compute weight is rounded from the master, and one of 24 bits is the
// nearest. False when a value is not finite, or not as a weight of the dtype.
bool StoreMaster(WeightFormat format, const float* masters, uint64_t first, uint64_t count,
                 char* const* planes);

// Words of what is packed (engine/weights/packed_weights.h): the low bits of each float are one.
void StoreWords(DType dtype, const float* words, uint64_t first, uint64_t count, char* plane);

}  // namespace spillway
