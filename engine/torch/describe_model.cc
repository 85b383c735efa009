#include "engine/torch/describe_model.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/frozen_parameters.h"
#include "engine/torch/value_flow.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<ModelDescription> DescribeModel(const Model& model, const FreezeRule& rule) {
  if (model.units.empty() || model.loss == nullptr) {
    return absl::InvalidArgumentError("a model needs at least one unit and a loss");
  }
  ModelDescription description;
  std::vector<std::vector<BorrowedParameter>> borrowed;
  std::set<std::string> frozen, names;
  auto add = [&](const auto& unit) {
    UnitDescription described;
    described.name = unit.name();
    for (const ParameterSpec& spec : unit.parameters()) {
      ParameterDescription parameter{spec.name, spec.shape};
      parameter.linear = spec.linear;
      described.parameters.push_back(std::move(parameter));
      if (spec.frozen) frozen.insert(spec.name);
      names.insert(spec.name);
    }
    borrowed.push_back(unit.borrowed());
    for (const BorrowedParameter& b : borrowed.back()) described.borrows.push_back(b.unit);
    std::sort(described.borrows.begin(), described.borrows.end());
    described.borrows.erase(std::unique(described.borrows.begin(), described.borrows.end()),
                            described.borrows.end());
    description.units.push_back(std::move(described));
  };
  for (const auto& unit : model.units) add(*unit);
  add(*model.loss);
  for (const auto& unit : model.units) {
    for (const BufferSpec& buffer : unit->buffers()) {
      if (names.insert(buffer.name).second) continue;
      return absl::InvalidArgumentError(absl::StrCat("buffer \"", buffer.name, "\" of unit \"",
                                                     unit->name(), "\" has another one's name"));
    }
  }
  for (size_t unit = 0; unit < borrowed.size(); ++unit) {
    for (const BorrowedParameter& b : borrowed[unit]) {
      if (b.unit < 0 || b.unit >= static_cast<int>(unit) || b.parameter < 0 ||
          b.parameter >= static_cast<int>(description.units[b.unit].parameters.size())) {
        return absl::InvalidArgumentError(
            absl::StrCat("unit \"", description.units[unit].name,
                         "\" borrows a parameter that no earlier unit has"));
      }
      const auto is_same = [&](const BorrowedParameter& other) {
        return other.unit == b.unit && other.parameter == b.parameter;
      };
      if (std::count_if(borrowed[unit].begin(), borrowed[unit].end(), is_same) > 1) {
        return absl::InvalidArgumentError(absl::StrCat(
            "unit \"", description.units[unit].name, "\" borrows ",
            description.units[b.unit].parameters[b.parameter].name, " twice: once is enough"));
      }
    }
  }
  RETURN_IF_ERROR(ValueFlow::Of(model).status());
  RETURN_IF_ERROR(LayOutParameters(description));
  if (rule.empty() && frozen.empty()) return description;
  RETURN_IF_ERROR(FreezeParameters(
      rule, [&](const std::string& name) { return frozen.contains(name); }, description));
  return description;
}

}  // namespace spillway
