#include "engine/weights/master_weights.h"

#include <cmath>
#include <cstring>

#include "engine/numeric/split_master.h"

namespace spillway {

namespace {

// Of which the weight is all there is.
void LoadWeight(DType dtype, const char* plane, uint64_t first, uint64_t count, float* out) {
  const auto* weight = reinterpret_cast<const uint16_t*>(plane) + first;
  for (uint64_t i = 0; i < count; ++i) {
    out[i] = dtype == DType::kBFloat16 ? FloatOfBits(uint32_t{weight[i]} << 16)
                                       : FloatFromFloat16(weight[i]);
  }
}

}  // namespace

void LoadMaster(DType dtype, char* const* planes, uint64_t first, uint64_t count, float* out) {
  if (dtype != DType::kFloat32 && planes[1] == nullptr) {
    return LoadWeight(dtype, planes[0], first, count, out);
  }
  if (dtype == DType::kBFloat16) {
    const auto* weight = reinterpret_cast<const uint16_t*>(planes[0]) + first;
    const auto* residual = reinterpret_cast<const uint16_t*>(planes[1]) + first;
    for (uint64_t i = 0; i < count; ++i) out[i] = Join(weight[i], residual[i]);
    return;
  }
  const int plane = dtype == DType::kFloat16 ? 1 : 0;
  std::memcpy(out, reinterpret_cast<const float*>(planes[plane]) + first, count * sizeof(float));
}

bool StoreMaster(DType dtype, const float* masters, uint64_t first, uint64_t count,
                 char* const* planes) {
  const bool alone = dtype != DType::kFloat32 && planes[1] == nullptr;
  bool finite = true;
  switch (dtype) {
    case DType::kBFloat16: {
      auto* weight = reinterpret_cast<uint16_t*>(planes[0]) + first;
      auto* residual = alone ? nullptr : reinterpret_cast<uint16_t*>(planes[1]) + first;
      for (uint64_t i = 0; i < count; ++i) {
        finite &= (BitsOf(masters[i]) & 0x7fffffff) < kFirstUnsplittableMagnitude;
        const SplitMaster split = Split(masters[i]);
        weight[i] = split.weight;
        if (!alone) residual[i] = split.residual;
      }
      break;
    }
    case DType::kFloat16: {
      auto* weight = reinterpret_cast<uint16_t*>(planes[0]) + first;
      auto* master = alone ? nullptr : reinterpret_cast<float*>(planes[1]) + first;
      for (uint64_t i = 0; i < count; ++i) {
        weight[i] = Float16FromFloat(masters[i]);
        finite &= (weight[i] & 0x7c00) != 0x7c00;
        if (!alone) master[i] = masters[i];
      }
      break;
    }
    case DType::kFloat32: {
      auto* weight = reinterpret_cast<float*>(planes[0]) + first;
      for (uint64_t i = 0; i < count; ++i) {
        finite &= std::isfinite(masters[i]);
        weight[i] = masters[i];
      }
      break;
    }
  }
  return finite;
}

void StoreWords(DType dtype, const float* words, uint64_t first, uint64_t count, char* plane) {
  if (dtype == DType::kFloat32) {
    std::memcpy(plane + first * sizeof(float), words, count * sizeof(float));
    return;
  }
  auto* const to = reinterpret_cast<uint16_t*>(plane) + first;
  for (uint64_t i = 0; i < count; ++i) to[i] = static_cast<uint16_t>(BitsOf(words[i]));
}

}  // namespace spillway
