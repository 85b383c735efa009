#include "engine/model/packed_parameters.h"

#include <algorithm>
#include <vector>

#include "io/base/check.h"

namespace spillway {
namespace {

// Declared rows that are unpacked at once if they are packed as columns.
constexpr uint64_t kBand = 64;

}  // namespace

void PackFrozenMatrices(const Packing& packing, ModelDescription& model,
                        const std::set<std::string>* names) {
  if (!packing.any()) return;
  const int loss = model.num_computing() - 1;
  for (int u = 0; u < static_cast<int>(model.units.size()); ++u) {
    UnitDescription& unit = model.units[u];
    if (!unit.frozen || u == loss || unit.part_of == loss) continue;
    for (ParameterDescription& parameter : unit.parameters) {
      if (parameter.linear == LinearWeight::kNone || parameter.shape.size() != 2) continue;
      if (names != nullptr && names->count(parameter.name) == 0) continue;
      parameter.packing = packing;
    }
  }
  SPILLWAY_CHECK(LayOutParameters(model).ok());  // valid, since it was laid out before
}

bool HasPacked(const UnitDescription& unit) {
  return std::any_of(unit.parameters.begin(), unit.parameters.end(),
                     [](const ParameterDescription& p) { return p.packing.any(); });
}

bool AnyPacked(const ModelDescription& model) {
  return std::any_of(model.units.begin(), model.units.end(), HasPacked);
}

ModelDescription WithWordsOf(uint32_t word_bytes, ModelDescription model) {
  for (UnitDescription& unit : model.units) {
    for (ParameterDescription& parameter : unit.parameters) {
      if (parameter.packing.any()) parameter.packing.word_bytes = word_bytes;
    }
  }
  SPILLWAY_CHECK(LayOutParameters(model).ok());  // valid, since it was laid out before
  return model;
}

uint64_t WeightBytes(const ModelDescription& model, uint32_t dtype_bytes) {
  uint64_t bytes = 0;
  for (const UnitDescription& unit : model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      bytes += parameter.packing.any() ? parameter.packed_shape().bytes()
                                       : parameter.elements * dtype_bytes;
    }
  }
  return bytes;
}

void UnpackElements(const ParameterDescription& parameter, const char* packed, uint64_t first,
                    uint64_t count, float* out) {
  const PackedShape shape = parameter.packed_shape();
  const auto columns = static_cast<uint64_t>(parameter.shape[1]);
  const bool transposed = parameter.linear == LinearWeight::kInOut;
  std::vector<float> band;
  while (count > 0) {
    const uint64_t row = first / columns, column = first % columns;
    // Whole rows if the range starts with one, otherwise the rest of this row.
    const uint64_t rows = column > 0 ? 1 : std::clamp<uint64_t>(count / columns, 1, kBand);
    const uint64_t some = std::min(count, rows * columns - column);
    const uint64_t each = rows == 1 ? some : columns;
    if (!transposed) {
      Unpack(shape, packed,
             {static_cast<int64_t>(row), static_cast<int64_t>(rows), static_cast<int64_t>(column),
              static_cast<int64_t>(each)},
             DType::kFloat32, out);
    } else {
      band.resize(some);
      Unpack(shape, packed,
             {static_cast<int64_t>(column), static_cast<int64_t>(each), static_cast<int64_t>(row),
              static_cast<int64_t>(rows)},
             DType::kFloat32, band.data());
      for (uint64_t i = 0; i < each; ++i) {
        for (uint64_t r = 0; r < rows; ++r) out[r * each + i] = band[i * rows + r];
      }
    }
    first += some;
    out += some;
    count -= some;
  }
}

}  // namespace spillway
