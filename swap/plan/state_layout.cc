#include "swap/plan/state_layout.h"

#include <algorithm>
#include <utility>

#include "io/base/check.h"

namespace spillway {

absl::string_view PlaneName(Plane plane) {
  switch (plane) {
    case Plane::kWeight:
      return "weight";
    case Plane::kResidual:
      return "residual";
    case Plane::kMaster:
      return "master";
    case Plane::kExpAvg:
      return "exp_avg";
    case Plane::kExpAvgSq:
      return "exp_avg_sq";
    case Plane::kMomentum:
      return "momentum";
    case Plane::kGradient:
      return "grad";
    case Plane::kActivation:
      return "activation";
  }
  return "unknown";
}

StateLayout::StateLayout(std::vector<UnitLayout> units, std::vector<PlaneSpec> planes,
                         uint32_t gradient_bytes_per_parameter, uint64_t tile_parameters)
    : units_(std::move(units)),
      planes_(std::move(planes)),
      gradient_bytes_per_parameter_(gradient_bytes_per_parameter),
      tile_parameters_(tile_parameters) {
  SPILLWAY_CHECK(!planes_.empty() && planes_[0].plane == Plane::kWeight);
  for (int i = 0; i < num_planes(); ++i) {
    SPILLWAY_CHECK(planes_[i].plane != Plane::kGradient);
    SPILLWAY_CHECK(PlaneIndex(planes_[i].plane) == i);  // no plane twice
    // Odd sizes would not fill whole 4096-byte blocks.
    SPILLWAY_CHECK(planes_[i].bytes_per_parameter > 0 && planes_[i].bytes_per_parameter % 2 == 0);
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

uint64_t StateLayout::PlaneRangeBytes(int first, int last) const {
  SPILLWAY_CHECK(first >= 0 && first <= last && last <= num_planes());
  uint64_t bytes = 0;
  for (int i = first; i < last; ++i) bytes += planes_[i].bytes_per_parameter;
  return bytes;
}

uint64_t StateLayout::PlaneBytes(int unit, int tile, int plane_index) const {
  return TileParameters(unit, tile) * PlaneRangeBytes(plane_index, plane_index + 1);
}

uint64_t StateLayout::TileBytes(int unit, int tile) const {
  return TileParameters(unit, tile) * PlaneRangeBytes(0, NumPlanes(unit));
}

uint64_t StateLayout::PlaneOffset(int unit, int tile, int plane_index) const {
  return TileParameters(unit, tile) * PlaneRangeBytes(0, plane_index);
}

uint64_t StateLayout::GradientBytes(int unit, int tile) const {
  return TileParameters(unit, tile) * gradient_bytes_per_parameter_;
}

uint64_t StateLayout::UnitBytes(int unit) const {
  return PaddedParameters(unit) * PlaneRangeBytes(0, NumPlanes(unit));
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

uint64_t StateLayout::TotalParameters() const {
  uint64_t total = 0;
  for (const UnitLayout& unit : units_) total += unit.parameters;
  return total;
}

uint64_t StateLayout::TotalPaddedParameters() const {
  uint64_t total = 0;
  for (int unit = 0; unit < num_units(); ++unit) total += PaddedParameters(unit);
  return total;
}

}  // namespace spillway
