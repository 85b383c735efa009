// A model without its arithmetic: names, shapes, and the position of each parameter in its unit's
// flat range. Layout, schedule, digests and exports are made from it. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/parameter.h"
#include "engine/numeric/optimizer.h"
#include "engine/numeric/packed_matrix.h"
#include "nlohmann/json.hpp"
#include "swap/plan/state_layout.h"
#include "swap/plan/step_schedule.h"

namespace spillway {

struct ParameterDescription {
  std::string name;
  std::vector<int64_t> shape;
  uint64_t elements = 1;
  uint64_t offset = 0;  // the first word in the unit's flat range
  // In commits it is recorded for packed matrices only.
  LinearWeight linear = LinearWeight::kNone;
  // The format of a frozen matrix that is packed: [out, in], however it is declared.
  Packing packing = {};
  // Length in the flat range, in words of the run's dtype: the elements, or the packed bytes.
  uint64_t words = 1;

  // REQUIRES: the matrix is packed.
  PackedShape packed_shape() const;
};

// The description of a parameter that a unit declares.
ParameterDescription Describe(const ParameterSpec& parameter);

// The position of a parameter: its unit, and its index there.
struct ParameterPlace {
  int unit = 0;
  int parameter = 0;
};

struct UnitDescription {
  std::string name;
  std::vector<ParameterDescription> parameters = {};
  std::vector<int> borrows = {};  // other units whose parameters it reads
  uint64_t flat_parameters = 0;   // length of the flat range in words, gaps counted
  // All of its parameters are read and never updated.
  bool frozen = false;
  // The unit whose frozen parameters these are, while its others are trained; -1: an ordinary unit.
  int part_of = -1;
  // In a unit with such a part: the position of each parameter, in the order of declaration.
  std::vector<ParameterPlace> places = {};
};

struct ModelDescription {
  // The units that compute, the last of which has the loss; then the frozen parts, which units
  // borrow.
  std::vector<UnitDescription> units;

  int num_computing() const;
  uint64_t parameter_count() const;
  uint64_t trained_parameter_count() const;
  // For a unit that computes: the number of declared parameters, the position of the i-th, and the
  // number of trained elements.
  int NumParameters(int unit) const;
  ParameterPlace PlaceOf(int unit, int i) const;
  uint64_t TrainedElements(int unit) const;
  // The first unit that reads trained parameters; the backward ends with it.
  int first_backward() const;
};

// Parameters start at multiples of this many elements: 64 bytes at 2 bytes each, so that vectorised
// kernels see the same alignment wherever a unit is placed.
inline constexpr uint64_t kParameterStartAlignment = 32;

// Fills elements, words, offsets and flat_parameters from names and shapes. kInvalidArgument for a
// negative or overflowing shape, or a duplicate name.
absl::Status LayOutParameters(ModelDescription& model);

ScheduleModel DescribeSchedule(const ModelDescription& model);

StateLayout DescribeState(const ModelDescription& model, const OptimizerSpec& optimizer,
                          DType dtype, uint64_t tile_parameters);

// Whether Trainer.get_decay_parameter_names (transformers 5.24) excludes a parameter from weight
// decay: names of biases (T5's relative bias included) and of layer norms. ResNet's batch norms are
// not excluded.
bool IsSparedByTrainer(const std::string& name);

// The ranges with weight decay, by unit.
std::vector<std::vector<ParameterRange>> DecayedRanges(const ModelDescription& model,
                                                       OptimizerSpec::Decay decay);

// Every trained tensor as a matrix, by unit, in the order of the ranges (Decay::kAll).
std::vector<std::vector<FactoredTensor>> FactoredTensors(const ModelDescription& model);

// A run of one parameter's words within a stretch of a unit's flat range.
struct ParameterPiece {
  int parameter = 0;           // index in the unit
  uint64_t first_element = 0;  // in the parameter; the first word if it is packed
  uint64_t count = 0;
  uint64_t offset = 0;  // in the stretch
};

// The pieces of [begin, begin + count) of a unit's flat range, in order, without the gaps between
// parameters.
std::vector<ParameterPiece> PiecesOf(const UnitDescription& unit, uint64_t begin, uint64_t count);

// Checks that a run of `now` can resume from a commit of `committed`: units, parameters, shapes and
// frozen parameters are the same. kInvalidArgument names the first difference.
absl::Status CheckSameModel(const ModelDescription& committed, const ModelDescription& now);

// The part of the description that a commit records for inspect and export.
nlohmann::json ToJson(const ModelDescription& model);
absl::StatusOr<ModelDescription> ModelDescriptionFromJson(const nlohmann::json& json);

}  // namespace spillway
