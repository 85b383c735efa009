#include "engine/model/frozen_parameters.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/name_pattern.h"
#include "engine/model/packed_parameters.h"
#include "io/base/status.h"

namespace spillway {
namespace {

absl::StatusOr<NamePattern> ParsePattern(const char* flag, const std::string& text,
                                         const ModelDescription& model) {
  auto pattern = NamePattern::Parse(text);
  if (!pattern.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", pattern.status().message()));
  }
  std::string examples;  // one name from each of the first units
  for (size_t u = 0; u < model.units.size(); ++u) {
    const auto& parameters = model.units[u].parameters;
    for (const ParameterDescription& parameter : parameters) {
      if (pattern->FoundIn(parameter.name)) return pattern;
    }
    if (u >= 3 || parameters.empty()) continue;
    absl::StrAppend(&examples, examples.empty() ? "" : ", ", parameters.back().name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      flag, " ", text, ": found in no parameter's name; there are ", examples, " and so on"));
}

}  // namespace

absl::Status FreezeParameters(const std::function<bool(const std::string&)>& frozen,
                              ModelDescription& model) {
  const int units = static_cast<int>(model.units.size());
  std::vector<int> part_of(units, -1);  // [unit] its frozen part, if it has one
  for (int u = 0; u < units; ++u) {
    UnitDescription& unit = model.units[u];
    const auto is_frozen = [&](const ParameterDescription& p) { return frozen(p.name); };
    const auto& all = unit.parameters;
    const auto count = std::count_if(all.begin(), all.end(), is_frozen);
    if (count == 0) continue;
    unit.frozen = count == static_cast<int64_t>(all.size());
    if (unit.frozen) continue;
    UnitDescription part;
    part.name = absl::StrCat(unit.name, " (frozen)");
    part.frozen = true;
    part.part_of = u;
    part_of[u] = static_cast<int>(model.units.size());
    std::vector<ParameterDescription> trained;
    for (ParameterDescription& parameter : unit.parameters) {
      const bool frozen_one = is_frozen(parameter);
      auto& into = frozen_one ? part.parameters : trained;
      unit.places.push_back({frozen_one ? part_of[u] : u, static_cast<int>(into.size())});
      into.push_back(std::move(parameter));
    }
    unit.parameters = std::move(trained);
    model.units.push_back(std::move(part));
  }
  for (int u = 0; u < units; ++u) {
    std::vector<int>& borrows = model.units[u].borrows;
    std::vector<int> parts = {part_of[u]};
    for (int lender : borrows) parts.push_back(part_of[lender]);
    for (int part : parts) {
      if (part >= 0) borrows.push_back(part);
    }
  }
  RETURN_IF_ERROR(LayOutParameters(model));
  if (model.trained_parameter_count() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("all parameters are frozen, and nothing is left to be trained");
}

absl::Status FreezeParameters(const FreezeRule& rule,
                              const std::function<bool(const std::string&)>& also,
                              ModelDescription& model) {
  std::optional<NamePattern> freeze, train_only;
  if (!rule.freeze.empty()) {
    ASSIGN_OR_RETURN(freeze, ParsePattern("--freeze", rule.freeze, model));
  }
  if (!rule.train_only.empty()) {
    ASSIGN_OR_RETURN(train_only, ParsePattern("--train-only", rule.train_only, model));
  }
  RETURN_IF_ERROR(FreezeParameters(
      [&](const std::string& name) {
        return (freeze && freeze->FoundIn(name)) || (train_only && !train_only->FoundIn(name)) ||
               also(name);
      },
      model));
  PackFrozenMatrices(rule.packing, model, rule.packed ? &*rule.packed : nullptr);
  if (rule.packing.any() && !AnyPacked(model)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--base-dtype ", std::string(PackedFormatName(rule.packing.format)),
        ": no matrix of a layer is frozen that could be kept so: train adapters beside them "
        "(--lora-r), or freeze some (--freeze)"));
  }
  return absl::OkStatus();
}

}  // namespace spillway
