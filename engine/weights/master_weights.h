// Converts fp32 masters to and from the planes in which a run stores them.
#pragma once

#include <cstdint>

#include "engine/numeric/update_kind.h"
#include "swap/plan/state_layout.h"

namespace spillway {

// The format in which a run with these planes stores its masters.
WeightFormat MasterFormat(const StateLayout& layout, DType dtype);

// Loads elements [first, first + count) of a tile whose planes are `planes`, weight first (bf16:
// weight and residual; fp16: weight and master; fp32: weight). For a frozen parameter, and in runs
// without masters, the second plane is null and only the weight is read or written.
void LoadMaster(WeightFormat format, char* const* planes, uint64_t first, uint64_t count,
                float* out);

// Stores masters: the compute weight is rounded from the master, and a 24-bit master is the nearest
// one. False if a value is not finite, also as a weight of the dtype.
bool StoreMaster(WeightFormat format, const float* masters, uint64_t first, uint64_t count,
                 char* const* planes);

// Stores the words of packed weights (engine/weights/packed_weights.h): the low bits of each float
// are one word.
void StoreWords(DType dtype, const float* words, uint64_t first, uint64_t count, char* plane);

}  // namespace spillway
