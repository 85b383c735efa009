#include "engine/model/model_description.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/numeric/optimizer_state.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr uint64_t kMaxUnitParameters = uint64_t{1} << 40;

uint64_t RoundUp(uint64_t n) {
  return (n + kParameterStartAlignment - 1) / kParameterStartAlignment * kParameterStartAlignment;
}

// A whole number up to `most`; get() would convert any number.
bool ReadIndex(const nlohmann::json& json, uint64_t most, uint64_t* value) {
  if (!json.is_number_unsigned()) return false;
  *value = json.get<uint64_t>();
  return *value <= most;
}

// kNone is no way to pack.
bool ReadPacking(const nlohmann::json& json, ParameterDescription* parameter) {
  const auto format = PackedFormatFromName(json.at("format").get<std::string>());
  uint64_t word_bytes = 0;
  if (!format || *format == PackedFormat::kNone || parameter->shape.size() != 2 ||
      !ReadIndex(json.at("word_bytes"), sizeof(float), &word_bytes) ||
      (word_bytes != 2 && word_bytes != 4)) {
    return false;
  }
  parameter->packing = {*format, static_cast<uint32_t>(word_bytes)};
  parameter->linear = json.at("in_out").get<bool>() ? LinearWeight::kInOut : LinearWeight::kOutIn;
  return true;
}

// The `i`-th of `list`, as `describe` says it; "" where the list is shorter.
template <typename T, typename Describe>
std::string TextOf(const std::vector<T>& list, size_t i, Describe describe) {
  return i < list.size() ? describe(list[i]) : "";
}

std::string UnitText(const UnitDescription& unit) {
  return absl::StrCat("\"", unit.name, "\"", unit.frozen ? ", frozen" : "");
}

std::string ParameterText(const ParameterDescription& parameter) {
  std::string text =
      absl::StrCat("\"", parameter.name, "\" [", absl::StrJoin(parameter.shape, ", "), "]");
  if (parameter.packing.any()) {
    absl::StrAppend(&text, " in ", PackedFormatName(parameter.packing.format));
  }
  return text;
}

}  // namespace

ParameterDescription Describe(const ParameterSpec& parameter) {
  ParameterDescription described;
  described.name = parameter.name;
  described.shape = parameter.shape;
  described.linear = parameter.linear;
  return described;
}

PackedShape ParameterDescription::packed_shape() const {
  const bool transposed = linear == LinearWeight::kInOut;
  return {packing.format, shape[transposed ? 1 : 0], shape[transposed ? 0 : 1]};
}

uint64_t ModelDescription::parameter_count() const {
  uint64_t count = 0;
  for (const UnitDescription& unit : units) {
    for (const ParameterDescription& parameter : unit.parameters) count += parameter.elements;
  }
  return count;
}

uint64_t ModelDescription::trained_parameter_count() const {
  uint64_t count = 0;
  for (size_t unit = 0; unit < units.size(); ++unit) count += TrainedElements(unit);
  return count;
}

int ModelDescription::num_computing() const {
  return static_cast<int>(std::count_if(
      units.begin(), units.end(), [](const UnitDescription& unit) { return unit.part_of < 0; }));
}

int ModelDescription::NumParameters(int unit) const {
  const UnitDescription& one = units[unit];
  return static_cast<int>(one.places.empty() ? one.parameters.size() : one.places.size());
}

ParameterPlace ModelDescription::PlaceOf(int unit, int i) const {
  return units[unit].places.empty() ? ParameterPlace{unit, i} : units[unit].places[i];
}

uint64_t ModelDescription::TrainedElements(int unit) const {
  if (units[unit].frozen) return 0;
  uint64_t count = 0;  // frozen ones of it are in a part
  for (const ParameterDescription& parameter : units[unit].parameters) count += parameter.elements;
  return count;
}

int ModelDescription::first_backward() const {
  return BuildTrainSchedule(DescribeSchedule(*this), UpdateMode::kDeferred).ops.back().unit;
}

absl::Status LayOutParameters(ModelDescription& model) {
  std::map<std::string, const UnitDescription*> units;  // by their parameters' names
  for (UnitDescription& unit : model.units) {
    uint64_t offset = 0;
    for (ParameterDescription& parameter : unit.parameters) {
      const auto [other, fresh] = units.emplace(parameter.name, &unit);
      if (!fresh) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the model has two parameters named \"", parameter.name, "\", in unit \"",
            other->second->name, "\" and in unit \"", unit.name,
            "\": give each its own name, or let the later unit borrow it (Unit::borrowed)"));
      }
      parameter.elements = 1;
      for (int64_t size : parameter.shape) {
        if (size < 0 || (size > 0 && parameter.elements > kMaxUnitParameters / size)) {
          return absl::InvalidArgumentError(
              absl::StrCat("parameter \"", parameter.name, "\" has an impossible shape"));
        }
        parameter.elements *= size;
      }
      parameter.words = parameter.packing.any()
                            ? parameter.packed_shape().bytes() / parameter.packing.word_bytes
                            : parameter.elements;
      parameter.offset = RoundUp(offset);
      offset = parameter.offset + parameter.words;
    }
    unit.flat_parameters = offset;
  }
  return absl::OkStatus();
}

ScheduleModel DescribeSchedule(const ModelDescription& model) {
  ScheduleModel schedule;
  bool any_frozen = false;
  for (const UnitDescription& unit : model.units) {
    if (unit.part_of < 0) schedule.borrows.push_back(unit.borrows);
    schedule.trains.push_back(!unit.frozen);
    any_frozen |= unit.frozen;
  }
  if (!any_frozen) schedule.trains.clear();
  return schedule;
}

StateLayout DescribeState(const ModelDescription& model, const OptimizerSpec& optimizer,
                          DType dtype, uint64_t tile_parameters) {
  std::vector<UnitLayout> units;
  for (const UnitDescription& unit : model.units) {
    units.push_back({unit.name, unit.flat_parameters, unit.frozen});
  }
  return StateLayout(std::move(units), StatePlanes(optimizer, dtype), DTypeBytes(dtype),
                     tile_parameters > 0 ? tile_parameters : kDefaultTileParameters);
}

bool IsSparedByTrainer(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const char* part : {"bias", "layernorm", "rmsnorm"}) {
    if (absl::StrContains(lower, part)) return true;
  }
  for (const absl::string_view part : absl::StrSplit(lower, '.')) {
    // GPT-2's ln_1, ln_2 and ln_f are known by their class there.
    if (part == "norm" || absl::EndsWith(part, "_norm") || absl::StartsWith(part, "ln_")) {
      return true;
    }
  }
  return false;
}

std::vector<std::vector<ParameterRange>> DecayedRanges(const ModelDescription& model,
                                                       OptimizerSpec::Decay decay) {
  std::vector<std::vector<ParameterRange>> ranges(model.units.size());
  for (size_t unit = 0; unit < model.units.size(); ++unit) {
    for (const ParameterDescription& parameter : model.units[unit].parameters) {
      using Decay = OptimizerSpec::Decay;
      if (decay == Decay::kMatrices && parameter.shape.size() < 2) continue;
      if (decay == Decay::kTrainer && IsSparedByTrainer(parameter.name)) continue;
      if (parameter.elements == 0) continue;
      ranges[unit].push_back({parameter.offset, parameter.offset + parameter.words});
    }
  }
  return ranges;
}

std::vector<std::vector<FactoredTensor>> FactoredTensors(const ModelDescription& model) {
  std::vector<std::vector<FactoredTensor>> tensors(model.units.size());
  for (size_t unit = 0; unit < model.units.size(); ++unit) {
    if (model.units[unit].frozen) continue;
    for (const ParameterDescription& parameter : model.units[unit].parameters) {
      if (parameter.elements == 0) continue;
      const bool matrix = parameter.shape.size() > 1;
      const uint64_t rows = matrix ? static_cast<uint64_t>(parameter.shape[0]) : 1;
      tensors[unit].push_back({parameter.offset, rows, parameter.elements / rows});
    }
  }
  return tensors;
}

std::vector<ParameterPiece> PiecesOf(const UnitDescription& unit, uint64_t begin, uint64_t count) {
  std::vector<ParameterPiece> pieces;
  const uint64_t end = begin + count;
  for (size_t i = 0; i < unit.parameters.size(); ++i) {
    const ParameterDescription& parameter = unit.parameters[i];
    const uint64_t first = std::max(begin, parameter.offset);
    const uint64_t last = std::min(end, parameter.offset + parameter.words);
    if (first >= last) continue;
    pieces.push_back({static_cast<int>(i), first - parameter.offset, last - first, first - begin});
  }
  return pieces;
}

absl::Status CheckSameModel(const ModelDescription& committed, const ModelDescription& now) {
  const auto compare = [](absl::string_view what, size_t i, const std::string& then,
                          const std::string& current) -> absl::Status {
    if (then == current) return absl::OkStatus();
    const auto said = [](const std::string& text) { return text.empty() ? "not there" : text; };
    return absl::InvalidArgumentError(absl::StrCat(
        "--resume continues the same model, but ", what, " ", i, " was ", said(then),
        " and is now ", said(current),
        "; give the units and parameters of the commit, or another --output to start a new run"));
  };
  for (size_t u = 0; u < std::max(committed.units.size(), now.units.size()); ++u) {
    RETURN_IF_ERROR(
        compare("unit", u, TextOf(committed.units, u, UnitText), TextOf(now.units, u, UnitText)));
    const auto &then = committed.units[u].parameters, &current = now.units[u].parameters;
    for (size_t i = 0; i < std::max(then.size(), current.size()); ++i) {
      RETURN_IF_ERROR(compare(absl::StrCat("in unit \"", now.units[u].name, "\" parameter"), i,
                              TextOf(then, i, ParameterText), TextOf(current, i, ParameterText)));
    }
  }
  return absl::OkStatus();
}

nlohmann::json ToJson(const ModelDescription& model) {
  nlohmann::json units = nlohmann::json::array();
  for (const UnitDescription& unit : model.units) {
    nlohmann::json parameters = nlohmann::json::array();
    for (const ParameterDescription& parameter : unit.parameters) {
      parameters.push_back({{"name", parameter.name}, {"shape", parameter.shape}});
      if (!parameter.packing.any()) continue;
      parameters.back()["packed"] = {
          {"format", std::string(PackedFormatName(parameter.packing.format))},
          {"word_bytes", parameter.packing.word_bytes},
          {"in_out", parameter.linear == LinearWeight::kInOut}};
    }
    units.push_back({{"name", unit.name}, {"parameters", parameters}, {"borrows", unit.borrows}});
    if (unit.frozen) units.back()["frozen"] = true;
    if (unit.part_of >= 0) units.back()["part_of"] = unit.part_of;
  }
  return units;
}

absl::StatusOr<ModelDescription> ModelDescriptionFromJson(const nlohmann::json& json) {
  ModelDescription model;
  const auto broken = [](absl::string_view what) {
    return WrongBytesError(absl::StrCat("the commit's list of parameters: ", what));
  };
  if (!json.is_array()) return broken("it is no list");
  try {
    for (const auto& u : json) {
      UnitDescription unit;
      unit.name = u.at("name").get<std::string>();
      for (const auto& other : u.at("borrows")) {
        uint64_t index = 0;
        if (!ReadIndex(other, json.size() - 1, &index)) return broken("a borrow of no unit");
        unit.borrows.push_back(static_cast<int>(index));
      }
      for (const auto& p : u.at("parameters")) {
        ParameterDescription parameter;
        parameter.name = p.at("name").get<std::string>();
        for (const auto& extent : p.at("shape")) {
          uint64_t size = 0;
          if (!ReadIndex(extent, kMaxUnitParameters, &size)) return broken("an impossible shape");
          parameter.shape.push_back(static_cast<int64_t>(size));
        }
        if (p.contains("packed") && !ReadPacking(p["packed"], &parameter)) {
          return broken("a matrix that is packed in no way known here");
        }
        unit.parameters.push_back(std::move(parameter));
      }
      unit.frozen = u.value("frozen", false);
      uint64_t whole = 0;
      if (u.contains("part_of") && !ReadIndex(u["part_of"], json.size() - 1, &whole)) {
        return broken("a part of no unit");
      }
      if (u.contains("part_of")) unit.part_of = static_cast<int>(whole);
      model.units.push_back(std::move(unit));
    }
  } catch (const nlohmann::json::exception& error) {
    return broken(error.what());
  }
  if (const absl::Status status = LayOutParameters(model); !status.ok()) {
    return broken(status.message());
  }
  return model;
}

}  // namespace spillway
