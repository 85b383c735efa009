#include "engine/torch/describe_model.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/utf8_repair.h"
#include "engine/model/frozen_parameters.h"
#include "engine/torch/value_flow.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// A commit's JSON has it.
absl::Status CheckModelName(absl::string_view what, const std::string& name) {
  if (ValidUtf8Prefix(name) == name.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the name of ", what, " \"", absl::CEscape(name),
                   "\" is no UTF-8, and a commit could not say it: give another"));
}

// The names of a unit, or of the loss, and what parameters start with.
absl::Status CheckSpecs(const std::string& unit, const std::vector<ParameterSpec>& specs) {
  RETURN_IF_ERROR(CheckModelName("unit", unit));
  for (const ParameterSpec& spec : specs) {
    RETURN_IF_ERROR(CheckModelName(absl::StrCat("a parameter of unit \"", unit, "\""), spec.name));
    const int64_t width = spec.shape.empty() ? 0 : spec.shape.back();
    if (spec.init.kind != Init::Kind::kWaves || (width >= 2 && width % 2 == 0)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("parameter \"", spec.name, "\" of unit \"", unit,
                     "\" starts with Init::Waves, which makes ",
                     "pairs of columns: its last dimension must be even"));
  }
  return absl::OkStatus();
}

absl::Status CheckLooksUp(const Unit& unit) {
  const int looked_up = unit.looks_up();
  if (looked_up == -1) return absl::OkStatus();
  const std::vector<ParameterSpec> specs = unit.parameters();
  if (looked_up >= 0 && looked_up < static_cast<int>(specs.size())) {
    const std::vector<int64_t>& shape = specs[looked_up].shape;
    if (!shape.empty() && shape[0] > 0) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unit \"", unit.name(), "\" looks rows up in its parameter ", looked_up,
      " (Unit::looks_up), which is none of the ", specs.size(), " that it has, or has no rows"));
}

}  // namespace

absl::StatusOr<ModelDescription> DescribeModel(const Model& model, const FreezeRule& rule) {
  if (model.units.empty() || model.loss == nullptr) {
    return absl::InvalidArgumentError("a model needs at least one unit and a loss");
  }
  for (size_t unit = 0; unit < model.units.size(); ++unit) {
    if (model.units[unit] == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("unit ", unit, " of Model::units is null"));
    }
    RETURN_IF_ERROR(CheckSpecs(model.units[unit]->name(), model.units[unit]->parameters()));
    RETURN_IF_ERROR(CheckLooksUp(*model.units[unit]));
  }
  RETURN_IF_ERROR(CheckSpecs(model.loss->name(), model.loss->parameters()));
  ModelDescription description;
  std::vector<std::vector<BorrowedParameter>> borrowed;
  std::set<std::string> frozen, names;
  auto add = [&](const auto& unit) {
    UnitDescription described;
    described.name = unit.name();
    for (const ParameterSpec& spec : unit.parameters()) {
      described.parameters.push_back(Describe(spec));
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
      RETURN_IF_ERROR(
          CheckModelName(absl::StrCat("a buffer of unit \"", unit->name(), "\""), buffer.name));
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
  if (description.parameter_count() == 0) {
    return absl::InvalidArgumentError("the model has no parameters: there is nothing to train");
  }
  if (rule.empty() && frozen.empty()) return description;
  RETURN_IF_ERROR(FreezeParameters(
      rule, [&](const std::string& name) { return frozen.contains(name); }, description));
  return description;
}

}  // namespace spillway
