#include "engine/weights/export_layout.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/shallow_json.h"
#include "engine/weights/named_weights.h"
#include "engine/weights/safetensors_index.h"
#include "engine/weights/safetensors_model.h"

namespace spillway {
namespace {

using nlohmann::json;

// Format of the file: {"tensor": ["file", "bfloat16", "parameter"], ...}, for zeros ["file",
// "bfloat16", null, [shape]]; and under this name, which no tensor has, {"files": {"file": {...}},
// "index": {...}, "dtype": "float32"}.
constexpr const char* kBeside = "__metadata__";

// Whether the files have every parameter, so that their names fit the whole model.
bool HasEveryParameter(const std::map<std::string, std::string>& parameters,
                       const TensorNames& names) {
  std::set<std::string> there;
  for (const auto& [tensor, parameter] : parameters) there.insert(parameter);
  return there.size() == names.shapes.size();
}

json LayoutOf(const SafetensorsModel& model, const TensorNames* names) {
  std::map<std::string, std::string> parameters;
  if (names != nullptr) parameters = ParametersOfTensors(*names, model);
  json layout = json::object();
  if (names != nullptr && !HasEveryParameter(parameters, *names)) {
    for (const auto& [tensor, parameter] : parameters) {
      const auto dtype = SafetensorsDType(model.Find(tensor)->dtype);
      if (dtype) layout[parameter] = {"", TorchName(*dtype), parameter};
    }
    return layout;
  }
  json& metadata = layout[kBeside] = {{"files", json::object()}, {"index", model.index_metadata()}};
  for (const SafetensorsFile* file : model.files()) {
    const std::string name(FileName(file->path()));
    metadata["files"][name] = file->metadata();
    for (const SafetensorsTensor& tensor : file->tensors()) {
      const auto dtype = SafetensorsDType(tensor.dtype);
      if (!dtype && tensor.dtype != "I64") continue;  // counts do not decide the dtype
      const auto parameter = parameters.find(tensor.name);
      if (!parameters.empty() && names->zeros.contains(tensor.name) && dtype) {
        layout[tensor.name] = {name, TorchName(*dtype), nullptr, tensor.shape};
        continue;
      }
      if (parameter == parameters.end() && !parameters.empty()) continue;  // left aside
      layout[tensor.name] = {name, dtype ? TorchName(*dtype) : "int64",
                             parameter == parameters.end() ? tensor.name : parameter->second};
    }
  }
  return layout;
}

bool IsShape(const json& shape) {
  return shape.is_array() && std::all_of(shape.begin(), shape.end(), [](const json& size) {
           return size.is_number_unsigned();
         });
}

SafetensorsMetadata MetadataOf(const json& saved) {
  SafetensorsMetadata metadata;
  if (const json index = saved.value("index", json()); index.is_object()) metadata.index = index;
  const json of_files = saved.value("files", json::object());
  for (const auto& [file, entries] : of_files.items()) {
    for (const auto& [key, value] : entries.items()) {
      if (value.is_string()) metadata.files[file][key] = value.get<std::string>();
    }
  }
  return metadata;
}

}  // namespace

std::optional<DType> ExportLayout::FirstDType() const {
  std::map<std::string, std::optional<DType>> by_tensor;
  for (const auto& [parameter, tensors] : places) {
    for (const TensorPlace& place : tensors) {
      if (place.dtype) by_tensor[place.name] = place.dtype;
    }
  }
  return by_tensor.empty() ? std::nullopt : by_tensor.begin()->second;
}

absl::Status SaveExportLayout(const std::string& model_directory, const TensorNames* names,
                              std::optional<DType> dtype, const std::string& to,
                              FileSystem& files) {
  json layout = json::object();
  const auto model = SafetensorsModel::Open(model_directory);
  if (model.ok()) layout = LayoutOf(**model, names);
  if (dtype) layout[kBeside]["dtype"] = TorchName(*dtype);
  return WriteFileAtomically(files, absl::StrCat(to, "/", kExportLayoutName), layout.dump() + "\n",
                             FileAccess::kShared);
}

ExportLayout ReadExportLayout(const std::string& directory, FileSystem& files) {
  ExportLayout layout;
  const auto text = files.ReadSmallFile(absl::StrCat(directory, "/", kExportLayoutName));
  if (!text.ok()) return layout;
  const json saved = ParseShallowJson(*text);
  if (!saved.is_object()) return layout;
  for (const auto& [tensor, place] : saved.items()) {
    if (tensor == kBeside && place.is_object()) {
      layout.metadata = MetadataOf(place);
      layout.dtype = DTypeOfTorchName(place.value("dtype", json()));
      continue;
    }
    if (!place.is_array() || place.size() < 2 || !place[0].is_string()) return {};
    const std::string given = place[0].get<std::string>();
    const std::string file = IsWeightsFile(given) ? given : "";
    const std::optional<DType> dtype = DTypeOfTorchName(place[1]);
    if (place.size() == 4) {
      if (dtype && IsShape(place[3])) layout.zeros.push_back({tensor, *dtype, place[3], file});
      continue;
    }
    const bool named = place.size() > 2 && place[2].is_string();
    layout.places[named ? place[2].get<std::string>() : tensor].push_back({tensor, file, dtype});
  }
  return layout;
}

const char* TorchName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
  }
  return "";
}

std::optional<DType> DTypeOfTorchName(const json& name) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (name == TorchName(dtype)) return dtype;
  }
  return std::nullopt;
}

}  // namespace spillway
