// A model without its arithmetic: names, shapes and where each parameter lies in its
// unit's flat range. What the layout, the schedule, digests and exports are made from.
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/numeric/dtype.h"
#include "engine/numeric/optimizer.h"
#include "nlohmann/json.hpp"
#include "swap/plan/state_layout.h"
#include "swap/plan/step_schedule.h"

namespace spillway {

struct ParameterDescription {
  std::string name;
  std::vector<int64_t> shape;
  uint64_t elements = 1;
  uint64_t offset = 0;  // of its first element in the unit's flat range
};

struct UnitDescription {
  std::string name;
  std::vector<ParameterDescription> parameters = {};
  std::vector<int> borrows = {};  // other units whose parameters it reads
  uint64_t flat_parameters = 0;   // length of the flat range, gaps counted
};

struct ModelDescription {
  std::vector<UnitDescription> units;  // the last one has the loss

  uint64_t parameter_count() const;
};

// Parameters start at multiples of this many elements: 64 bytes at 2 bytes each, so
// that vectorised kernels see the same alignment wherever a unit is placed.
inline constexpr uint64_t kParameterStartAlignment = 32;

// Fills elements, offsets and flat_parameters from names and shapes. kInvalidArgument
// for a negative or overflowing shape, or a name used twice.
absl::Status LayOutParameters(ModelDescription& model);

ScheduleModel DescribeSchedule(const ModelDescription& model);

StateLayout DescribeState(const ModelDescription& model, const OptimizerSpec& optimizer,
                          DType dtype, uint64_t tile_parameters);

// The ranges that weight decay touches, by unit.
std::vector<std::vector<ParameterRange>> DecayedRanges(const ModelDescription& model,
                                                       OptimizerSpec::Decay decay);

// A run of one parameter's elements inside a stretch of a unit's flat range.
struct ParameterPiece {
  int parameter = 0;           // index in the unit
  uint64_t first_element = 0;  // of the parameter
  uint64_t count = 0;
  uint64_t offset = 0;  // in the stretch
};

// The pieces of [begin, begin + count) of a unit's flat range, in order; gaps between
// parameters are left out.
std::vector<ParameterPiece> PiecesOf(const UnitDescription& unit, uint64_t begin, uint64_t count);

// For the commit: what inspect and export need to know of the model.
nlohmann::json ToJson(const ModelDescription& model);
absl::StatusOr<ModelDescription> ModelDescriptionFromJson(const nlohmann::json& json);

}  // namespace spillway
