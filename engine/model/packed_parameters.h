// Frozen matrices that a run keeps packed (engine/numeric/packed_matrix.h).
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "engine/model/model_description.h"

namespace spillway {

// Packs the matrices of `model` that are frozen and that UnitContext::Linear multiplies by, but
// for those of the loss, whose logits need all their digits (bitsandbytes leaves them as well).
// `names`: of those alone that it has; null: of all. REQUIRES: the model is laid out.
void PackFrozenMatrices(const Packing& packing, ModelDescription& model,
                        const std::set<std::string>* names = nullptr);

// Whether any is.
bool HasPacked(const UnitDescription& unit);
bool AnyPacked(const ModelDescription& model);

// The same model in a dtype of so many bytes.
ModelDescription WithWordsOf(uint32_t word_bytes, ModelDescription model);

// Bytes of all weights, in a dtype of so many.
uint64_t WeightBytes(const ModelDescription& model, uint32_t dtype_bytes);

// Elements [first, first + count) of a packed parameter, row-major as it is declared, in fp32.
void UnpackElements(const ParameterDescription& parameter, const char* packed, uint64_t first,
                    uint64_t count, float* out);

}  // namespace spillway
