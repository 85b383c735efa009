#include "swap/plan/state_layout.h"

#include <algorithm>
#include <utility>

#include "io/base/check.h"
#include "io/base/enum_name.h"

namespace spillway {

absl::string_view PlaneName(Plane plane) {
  return EnumName(plane,
                  {"weight", "residual", "master", "exp_avg", "exp_avg_sq", "momentum", "grad",
                   "activation", "exp_avg_scale", "exp_avg_sq_scale", "momentum_scale"});
}

StateLayout::StateLayout(std::vector<UnitLayout> units, std::vector<PlaneSpec> planes,
                         uint32_t gradient_bytes_per_parameter, uint64_t tile_parameters)
    : units_(std::move(units)),
      planes_(std::move(planes)),
      gradient_bytes_per_parameter_(gradient_bytes_per_parameter),
      tile_parameters_(tile_parameters) {
  SPILLWAY_CHECK(!planes_.empty() && planes_[0].plane == Plane::kWeight);
  SPILLWAY_CHECK(planes_[0].bytes % 2 == 0 && planes_[0].parameters == 1);
  for (int i = 0; i < num_planes(); ++i) {
    SPILLWAY_CHECK(planes_[i].plane != Plane::kGradient);
    SPILLWAY_CHECK(PlaneIndex(planes_[i].plane) == i);  // no plane twice
    SPILLWAY_CHECK(planes_[i].bytes > 0 && planes_[i].parameters > 0);
    SPILLWAY_CHECK(kParameterAlignment % planes_[i].parameters == 0);
  }
  SPILLWAY_CHECK(gradient_bytes_per_parameter_ % 2 == 0);
  SPILLWAY_CHECK(tile_parameters_ > 0 && tile_parameters_ % kParameterAlignment == 0);
}

int StateLayout::PlaneIndex(Plane plane) const {
  for (int i = 0; i < num_planes(); ++i) {
    if (planes_[i].plane == plane) return i;
  }
  return -1;
}

uint64_t StateLayout::PaddedParameters(int unit) const {
  SPILLWAY_CHECK(unit >= 0 && unit < num_units());
  const uint64_t parameters = units_[unit].parameters;
  return (parameters + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
}

int StateLayout::NumTiles(int unit) const {
  return static_cast<int>((PaddedParameters(unit) + tile_parameters_ - 1) / tile_parameters_);
}

uint64_t StateLayout::TileParameters(int unit, int tile) const {
  SPILLWAY_CHECK(tile >= 0 && tile < NumTiles(unit));
  return std::min(tile_parameters_, PaddedParameters(unit) - TileBegin(tile));
}

uint64_t StateLayout::PaddedBytes(uint64_t parameters, int first, int last) const {
  SPILLWAY_CHECK(first >= 0 && first <= last && last <= num_planes());
  uint64_t bytes = 0;
  for (int i = first; i < last; ++i) {
    const uint64_t plane = planes_[i].BytesOf(parameters);
    bytes += (plane + kPlaneAlignment - 1) / kPlaneAlignment * kPlaneAlignment;
  }
  return bytes;
}

uint64_t StateLayout::TilePlanesBytes(int unit, int tile, int first, int last) const {
  return PaddedBytes(TileParameters(unit, tile), first, last);
}

uint64_t StateLayout::UnitPlanesBytes(int unit, int first, int last) const {
  const uint64_t parameters = PaddedParameters(unit);
  return parameters / tile_parameters_ * PaddedBytes(tile_parameters_, first, last) +
         PaddedBytes(parameters % tile_parameters_, first, last);
}

uint64_t StateLayout::PlaneBegin(int tile, int plane_index) const {
  return tile * PaddedBytes(tile_parameters_, plane_index, plane_index + 1);
}

uint64_t StateLayout::PlaneBytes(int unit, int tile, int plane_index) const {
  return TilePlanesBytes(unit, tile, plane_index, plane_index + 1);
}

uint64_t StateLayout::TileBytes(int unit, int tile) const {
  return TilePlanesBytes(unit, tile, 0, NumPlanes(unit));
}

uint64_t StateLayout::PlaneOffset(int unit, int tile, int plane_index) const {
  return TilePlanesBytes(unit, tile, 0, plane_index);
}

uint64_t StateLayout::GradientBytes(int unit, int tile) const {
  return TileParameters(unit, tile) * gradient_bytes_per_parameter_;
}

uint64_t StateLayout::UnitBytes(int unit) const {
  return UnitPlanesBytes(unit, 0, NumPlanes(unit));
}

uint64_t StateLayout::TotalBytes() const {
  uint64_t total = 0;
  for (int unit = 0; unit < num_units(); ++unit) total += UnitBytes(unit);
  return total;
}

// A unit's first tile is its largest.
uint64_t StateLayout::MaxTileBytes() const {
  uint64_t largest = 0;
  for (int unit = 0; unit < num_units(); ++unit) {
    if (NumTiles(unit) > 0) largest = std::max(largest, TileBytes(unit, 0));
  }
  return largest;
}

uint64_t StateLayout::MaxGradientTileBytes() const {
  uint64_t largest = 0;
  for (int unit = 0; unit < num_units(); ++unit) {
    if (NumTiles(unit) > 0 && !frozen(unit)) largest = std::max(largest, GradientBytes(unit, 0));
  }
  return largest;
}

uint64_t StateLayout::MaxPlaneTileBytes(int plane_index) const {
  uint64_t largest = 0;
  for (int unit = 0; unit < num_units(); ++unit) {
    if (NumTiles(unit) == 0 || plane_index >= NumPlanes(unit)) continue;
    largest = std::max(largest, PlaneBytes(unit, 0, plane_index));
  }
  return largest;
}

uint64_t StateLayout::TotalPaddedParameters() const {
  uint64_t total = 0;
  for (int unit = 0; unit < num_units(); ++unit) total += PaddedParameters(unit);
  return total;
}

}  // namespace spillway
