#include "engine/weights/master_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/numeric/number_formats.h"
#include "engine/numeric/split_master.h"
#include "io/base/check.h"

namespace spillway {

namespace {

template <typename T>
T* PlaneAt(char* plane, uint64_t first) {
  return plane == nullptr ? nullptr : reinterpret_cast<T*>(plane) + first;
}

template <WeightFormat kFormat>
void Load(char* const* planes, uint64_t first, uint64_t count, float* out) {
  using Weight = Number<DTypeOf(kFormat)>;
  const auto* weight = PlaneAt<typename Weight::Stored>(planes[0], first);
  if constexpr (HasResidual(kFormat)) {
    if (const auto* residual = PlaneAt<ResidualOf<kFormat>>(planes[1], first)) {
      for (uint64_t i = 0; i < count; ++i) out[i] = Join(weight[i], residual[i]);
      return;
    }
  } else if constexpr (kFormat == WeightFormat::kFloat16) {
    if (const auto* master = PlaneAt<float>(planes[1], first)) {
      std::memcpy(out, master, count * sizeof(float));
      return;
    }
  }
  for (uint64_t i = 0; i < count; ++i) out[i] = Weight::ToFloat(weight[i]);
}

template <typename Residual>
bool StoreBFloat16(const float* masters, uint64_t first, uint64_t count, char* const* planes) {
  auto* weight = PlaneAt<uint16_t>(planes[0], first);
  auto* residual = PlaneAt<Residual>(planes[1], first);
  bool finite = true;
  for (uint64_t i = 0; i < count; ++i) {
    const bool whole = sizeof(Residual) == 2 || residual == nullptr;
    const float master = whole ? masters[i] : NearestMaster24(masters[i]);
    finite &= (BitsOf(master) & 0x7fffffff) < kFirstUnsplittableMagnitude;
    const auto split = Split<Residual>(master);
    weight[i] = split.weight;
    if (residual != nullptr) residual[i] = split.residual;
  }
  return finite;
}

bool StoreFloat16(const float* masters, uint64_t first, uint64_t count, char* const* planes) {
  auto* weight = PlaneAt<uint16_t>(planes[0], first);
  auto* master = PlaneAt<float>(planes[1], first);
  bool finite = true;
  for (uint64_t i = 0; i < count; ++i) {
    weight[i] = Float16FromFloat(masters[i]);
    finite &= (weight[i] & 0x7c00) != 0x7c00;
    if (master != nullptr) master[i] = masters[i];
  }
  return finite;
}

}  // namespace

WeightFormat MasterFormat(const StateLayout& layout, DType dtype) {
  if (dtype == DType::kFloat32) return WeightFormat::kFloat32;
  if (dtype == DType::kFloat16) return WeightFormat::kFloat16;
  if (layout.MasterPlanes() == 1) return WeightFormat::kBFloat16Alone;
  return layout.planes()[1].bytes == 1 ? WeightFormat::kBFloat16Byte : WeightFormat::kBFloat16;
}

void LoadMaster(WeightFormat format, char* const* planes, uint64_t first, uint64_t count,
                float* out) {
  ForWeightFormat(format,
                  [&](auto kept) { Load<decltype(kept)::kValue>(planes, first, count, out); });
}

bool StoreMaster(WeightFormat format, const float* masters, uint64_t first, uint64_t count,
                 char* const* planes) {
  switch (format) {
    case WeightFormat::kFloat32: {
      auto* weight = PlaneAt<float>(planes[0], first);
      std::memcpy(weight, masters, count * sizeof(float));
      return std::all_of(masters, masters + count,
                         [](float value) { return std::isfinite(value); });
    }
    case WeightFormat::kFloat16:
      return StoreFloat16(masters, first, count, planes);
    case WeightFormat::kBFloat16Byte:
      return StoreBFloat16<uint8_t>(masters, first, count, planes);
    case WeightFormat::kBFloat16:
      return StoreBFloat16<uint16_t>(masters, first, count, planes);
    case WeightFormat::kBFloat16Alone: {
      char* const alone[] = {planes[0], nullptr};
      return StoreBFloat16<uint16_t>(masters, first, count, alone);
    }
  }
  SPILLWAY_CHECK(false);
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
