// The layout of a model's state: units, planes, tiles.
//
// A unit is a layer; its parameters are flattened into one range and padded.
// A plane is one kind of state of that range (the weight, a moment). A tile is
// a few hundred thousand neighbouring parameters: on storage all planes of a
// tile lie side by side, weight first, so that one sequential read brings what
// one update needs and one sequential write takes it back.
//
// Plain values, pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

// The values are part of the manifest format: never renumber.
enum class Plane : uint8_t {
  kWeight = 0,    // compute weight, in the run's dtype
  kResidual = 1,  // bf16 runs: the low 16 bits of the fp32 master
  kMaster = 2,    // fp16 runs: the fp32 master
  kExpAvg = 3,    // Adam's first moment
  kExpAvgSq = 4,  // Adam's second moment
  kMomentum = 5,  // SGD's momentum buffer
  kGradient = 6,  // the rounded gradient, in the run's dtype; not checkpointed
  // A unit's input, from its forward to its backward. It belongs to no parameters, and is not
  // checkpointed either.
  kActivation = 7,
  // Factors of the moments' 8-bit codes, in fp32, one for each block of parameters.
  kExpAvgScale = 8,
  kExpAvgSqScale = 9,
  kMomentumScale = 10,
};

// "weight", "residual", "master", "exp_avg", "exp_avg_sq", "momentum", "grad", "activation",
// "exp_avg_scale", "exp_avg_sq_scale", "momentum_scale".
absl::string_view PlaneName(Plane plane);

struct PlaneSpec {
  Plane plane;
  uint32_t bytes;           // of each block of
  uint32_t parameters = 1;  // neighbouring parameters: a divisor of kParameterAlignment

  // The bytes of `count` neighbouring parameters, a multiple of `parameters`.
  uint64_t BytesOf(uint64_t count) const { return count / parameters * bytes; }

  friend bool operator==(const PlaneSpec&, const PlaneSpec&) = default;
};

// Tiles hold this many parameters unless a test asks for less; a multiple of
// kParameterAlignment.
inline constexpr uint64_t kDefaultTileParameters = 256 * 1024;

// Units are padded to a multiple of this many parameters, so that a plane of 2 bytes a
// parameter is a whole number of blocks in every tile.
inline constexpr uint64_t kParameterAlignment = 2048;

// Every plane of every tile is padded to a multiple of this many bytes.
inline constexpr uint64_t kPlaneAlignment = 4096;

// Room on storage for what a plan spills beside the state: one slot, not part of a commit.
struct SpillRoom {
  std::vector<bool> gradients = {};             // by unit; empty means none
  std::vector<uint64_t> activation_bytes = {};  // by unit, multiples of 4096; empty means none
};

struct UnitLayout {
  std::string name;
  uint64_t parameters = 0;  // without padding
  // It is read and never updated: it has the weight's plane alone, and one slot on storage.
  bool frozen = false;

  friend bool operator==(const UnitLayout&, const UnitLayout&) = default;
};

// The layout of a whole model. Unit indices are positions in `units`.
class StateLayout {
 public:
  StateLayout() = default;
  // REQUIRES: planes[0] is kWeight, of an even number of bytes each; the planes are distinct and
  // kGradient is not among them; their bytes are positive, the gradient's even; tile_parameters is
  // a positive multiple of kParameterAlignment.
  StateLayout(std::vector<UnitLayout> units, std::vector<PlaneSpec> planes,
              uint32_t gradient_bytes_per_parameter,
              uint64_t tile_parameters = kDefaultTileParameters);

  const std::vector<UnitLayout>& units() const { return units_; }
  // The checkpointed planes in their order on storage.
  const std::vector<PlaneSpec>& planes() const { return planes_; }
  uint64_t tile_parameters() const { return tile_parameters_; }
  uint32_t gradient_bytes_per_parameter() const { return gradient_bytes_per_parameter_; }
  int num_units() const { return static_cast<int>(units_.size()); }
  int num_planes() const { return static_cast<int>(planes_.size()); }
  bool frozen(int unit) const { return units_[unit].frozen; }
  // The number of leading planes that make up the master weight: the weight's plane, and the next
  // one if that has the residual or the master.
  int MasterPlanes() const {
    return num_planes() > 1 &&
                   (planes_[1].plane == Plane::kResidual || planes_[1].plane == Plane::kMaster)
               ? 2
               : 1;
  }
  // The number of leading planes of planes() that the unit has.
  int NumPlanes(int unit) const { return frozen(unit) ? 1 : num_planes(); }

  // Position of `plane` in planes(), -1 when the run does not have it.
  int PlaneIndex(Plane plane) const;

  // Parameters of a unit with padding (a multiple of kParameterAlignment).
  uint64_t PaddedParameters(int unit) const;
  int NumTiles(int unit) const;
  // First parameter of a tile, and how many it holds (the last may hold less).
  uint64_t TileBegin(int tile) const { return tile * tile_parameters_; }
  uint64_t TileParameters(int unit, int tile) const;

  // Bytes of planes [first, last) by index in planes(): of a unit, of a tile.
  uint64_t UnitPlanesBytes(int unit, int first, int last) const;
  uint64_t TilePlanesBytes(int unit, int tile, int first, int last) const;
  // The offset of a tile in a unit's plane, where that plane alone is in memory.
  uint64_t PlaneBegin(int tile, int plane_index) const;
  // Bytes of one plane, or of all planes, of a tile, and a plane's offset in it.
  uint64_t PlaneBytes(int unit, int tile, int plane_index) const;
  uint64_t TileBytes(int unit, int tile) const;
  uint64_t PlaneOffset(int unit, int tile, int plane_index) const;
  uint64_t GradientBytes(int unit, int tile) const;
  // Bytes of all planes of all tiles of a unit, and of all units.
  uint64_t UnitBytes(int unit) const;
  uint64_t TotalBytes() const;

  // The largest tile of all, gradient not counted.
  uint64_t MaxTileBytes() const;
  uint64_t MaxGradientTileBytes() const;
  uint64_t MaxPlaneTileBytes(int plane_index) const;

  uint64_t TotalPaddedParameters() const;

  friend bool operator==(const StateLayout&, const StateLayout&) = default;

 private:
  // Bytes of planes [first, last) of one tile with `parameters` parameters, with padding.
  uint64_t PaddedBytes(uint64_t parameters, int first, int last) const;

  std::vector<UnitLayout> units_;
  std::vector<PlaneSpec> planes_;
  uint32_t gradient_bytes_per_parameter_ = 0;
  uint64_t tile_parameters_ = kDefaultTileParameters;
};

}  // namespace spillway
