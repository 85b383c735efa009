// Frozen matrices that a run keeps packed (engine/numeric/packed_matrix.h).
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "engine/model/model_description.h"

namespace spillway {

// Packs the frozen matrices of `model` that UnitContext::Linear multiplies by, except the loss's:
// logits need full precision (bitsandbytes leaves them as well). `names`: the matrices to pack;
// null: all. REQUIRES: the model is laid out.
void PackFrozenMatrices(const Packing& packing, ModelDescription& model,
                        const std::set<std::string>* names = nullptr);

// Whether any parameter is packed.
bool HasPacked(const UnitDescription& unit);
bool AnyPacked(const ModelDescription& model);

// A copy of `model` for a dtype of `word_bytes` bytes.
ModelDescription WithWordsOf(uint32_t word_bytes, ModelDescription model);

// Bytes of all weights in a dtype of `dtype_bytes` bytes.
uint64_t WeightBytes(const ModelDescription& model, uint32_t dtype_bytes);

// Writes elements [first, first + count) of a packed parameter to `out` in fp32, row-major as
// declared.
void UnpackElements(const ParameterDescription& parameter, const char* packed, uint64_t first,
                    uint64_t count, float* out);

}  // namespace spillway
