// A model without its arithmetic: names, shapes and where each parameter lies in its
// unit's flat range. What the layout, the schedule, digests and exports are made from.
// Plain values; any thread.
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
  uint64_t offset = 0;  // of its first word in the unit's flat range
  // Of commits it is known where the matrix is packed.
  LinearWeight linear = LinearWeight::kNone;
  // A frozen matrix may be packed: [out, in], whichever way it is declared.
  Packing packing = {};
  // What it takes of the flat range, each of the run's dtype: elements, or those that hold what is
  // packed.
  uint64_t words = 1;

  // REQUIRES: it is packed.
  PackedShape packed_shape() const;
};

// What it describes of a parameter that a unit declares.
ParameterDescription Describe(const ParameterSpec& parameter);

// Where a parameter is: of units, and of that one's parameters.
struct ParameterPlace {
  int unit = 0;
  int parameter = 0;
};

struct UnitDescription {
  std::string name;
  std::vector<ParameterDescription> parameters = {};
  std::vector<int> borrows = {};  // other units whose parameters it reads
  uint64_t flat_parameters = 0;   // length of the flat range in words, gaps counted
  // Its parameters are read and never updated.
  bool frozen = false;
  // These are the frozen parameters of that unit, the others of which are trained; -1: it computes.
  int part_of = -1;
  // Of a unit with such a part: where its parameters are, in the order in which it declares them.
  std::vector<ParameterPlace> places = {};
};

struct ModelDescription {
  // Those that compute, of which the last one has the loss; behind them parts of theirs, which
  // they borrow.
  std::vector<UnitDescription> units;

  int num_computing() const;
  uint64_t parameter_count() const;
  uint64_t trained_parameter_count() const;
  // The parameters that a unit which computes declares, where the i-th is, and the elements of
  // those that are trained.
  int NumParameters(int unit) const;
  ParameterPlace PlaceOf(int unit, int i) const;
  uint64_t TrainedElements(int unit) const;
  // The first unit that reads what is trained: the backward ends with it.
  int first_backward() const;
};

// Parameters start at multiples of this many elements: 64 bytes at 2 bytes each, so
// that vectorised kernels see the same alignment wherever a unit is placed.
inline constexpr uint64_t kParameterStartAlignment = 32;

// Fills elements, words, offsets and flat_parameters from names and shapes. kInvalidArgument
// for a negative or overflowing shape, or a name used twice.
absl::Status LayOutParameters(ModelDescription& model);

ScheduleModel DescribeSchedule(const ModelDescription& model);

StateLayout DescribeState(const ModelDescription& model, const OptimizerSpec& optimizer,
                          DType dtype, uint64_t tile_parameters);

// Whether Trainer.get_decay_parameter_names (transformers 5.24) leaves a parameter out: one whose
// name says that it is a bias (also T5's of distances, a matrix) or a layer norm's. The running
// norms of a ResNet are none there.
bool IsSparedByTrainer(const std::string& name);

// The ranges that weight decay touches, by unit.
std::vector<std::vector<ParameterRange>> DecayedRanges(const ModelDescription& model,
                                                       OptimizerSpec::Decay decay);

// Every trained tensor as a matrix, by unit, in the order of its ranges (Decay::kAll).
std::vector<std::vector<FactoredTensor>> FactoredTensors(const ModelDescription& model);

// A run of one parameter's words inside a stretch of a unit's flat range.
struct ParameterPiece {
  int parameter = 0;           // index in the unit
  uint64_t first_element = 0;  // of the parameter, or the first word of a packed one
  uint64_t count = 0;
  uint64_t offset = 0;  // in the stretch
};

// The pieces of [begin, begin + count) of a unit's flat range, in order; gaps between
// parameters are left out.
std::vector<ParameterPiece> PiecesOf(const UnitDescription& unit, uint64_t begin, uint64_t count);

// That a run of `now` can go on from a commit of `committed`: the units, their parameters, shapes
// and what is frozen are the same. kInvalidArgument that names the first difference.
absl::Status CheckSameModel(const ModelDescription& committed, const ModelDescription& now);

// For the commit: what inspect and export need to know of the model.
nlohmann::json ToJson(const ModelDescription& model);
absl::StatusOr<ModelDescription> ModelDescriptionFromJson(const nlohmann::json& json);

}  // namespace spillway
