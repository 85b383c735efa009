#include "engine/weights/model_files.h"

#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/weights/export_weights.h"
#include "engine/weights/safetensors_index.h"
#include "engine/weights/safetensors_model.h"
#include "io/base/status.h"
#include "io/file_system.h"
#include "io/own_files.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr const char* kConfig = "config.json";
constexpr const char* kGenerationConfig = "generation_config.json";
// How sounds or pictures become what the model is given: for transformers, in an export.
constexpr const char* kProcessorFiles[] = {"preprocessor_config.json", "processor_config.json"};
// {"tensor": ["file", "bfloat16"], ...} of the weights that a run began with.
constexpr const char* kWeightPlaces = "weight_places.json";

bool IsThere(FileSystem& files, const std::string& path) {
  return files.Look(path, SymbolicLink::kFollow).ok();
}

absl::Status CopyFile(FileSystem& files, const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(const std::string content, files.ReadSmallFile(from));
  return WriteFileAtomically(files, to, content);
}

// The plain files of a directory but config.json.
absl::StatusOr<std::vector<std::string>> OtherFiles(FileSystem& files,
                                                    const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> all, files.List(directory));
  std::vector<std::string> names;
  for (const std::string& name : all) {
    if (name == kConfig || name[0] == '.' || IsAtomicWriteLeftover(name)) continue;
    const auto info = files.Look(absl::StrCat(directory, "/", name), SymbolicLink::kFollow);
    if (info.ok() && info->kind == FileInfo::Kind::kFile) names.push_back(name);
  }
  return names;
}

json GenerationConfig(const json& config) {
  json generation = {{"_from_model_config", true}};
  for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const auto found = config.find(token);
    if (found != config.end() && !found->is_null()) generation[token] = *found;
  }
  return generation;
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

// Of a directory's safetensors; null where it has none that we read.
json WeightPlacesOf(const std::string& model_directory) {
  const auto model = SafetensorsModel::Open(model_directory);
  if (!model.ok()) return nullptr;
  json places = json::object();
  for (const SafetensorsFile* file : (*model)->files()) {
    for (const SafetensorsTensor& tensor : file->tensors()) {
      const auto dtype = SafetensorsDType(tensor.dtype);
      if (tensor.dtype == "I8") return nullptr;  // quantised: an export is laid out anew
      if (absl::StrContains(tensor.name, ".quant_state.")) return nullptr;
      if (!dtype && tensor.dtype != "I64") continue;  // of counts the dtype is not chosen
      places[tensor.name] = {FileName(file->path()), dtype ? TorchName(*dtype) : "int64"};
    }
  }
  return places;
}

// What SaveModelFiles has said of them. Only names of files that an export may have are taken.
std::map<std::string, ExportOptions::Place> ReadWeightPlaces(FileSystem& files,
                                                             const std::string& directory) {
  std::map<std::string, ExportOptions::Place> places;
  const auto text = files.ReadSmallFile(absl::StrCat(directory, "/", kWeightPlaces));
  if (!text.ok()) return places;
  const json saved = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!saved.is_object()) return places;
  for (const auto& [name, place] : saved.items()) {
    if (!place.is_array() || place.size() != 2 || !place[0].is_string()) return {};
    const std::string file = place[0].get<std::string>();
    places[name] = {IsWeightsFile(file) ? file : "", DTypeOfTorchName(place[1])};
  }
  return places;
}

// fp32 where the config does not say.
DType SavedDType(const json& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto found = config.find(key);
    if (found == config.end()) continue;
    if (const auto dtype = DTypeOfTorchName(*found)) return *dtype;
  }
  return DType::kFloat32;
}

}  // namespace

std::string SourceDirectory(const std::string& output) { return output + "/source"; }

absl::Status SaveModelFiles(const json& config, const std::string& model_directory,
                            const Tokenizer* tokenizer, const std::string& to, FileSystem& files) {
  RETURN_IF_ERROR(CreateDirectories(files, to));
  const std::string generation = absl::StrCat(model_directory, "/", kGenerationConfig);
  if (IsThere(files, generation)) {
    RETURN_IF_ERROR(CopyFile(files, generation, absl::StrCat(to, "/", kGenerationConfig)));
  } else {
    RETURN_IF_ERROR(WriteFileAtomically(files, absl::StrCat(to, "/", kGenerationConfig),
                                        GenerationConfig(config).dump(2) + "\n"));
  }
  for (const char* name : kProcessorFiles) {
    const std::string file = absl::StrCat(model_directory, "/", name);
    if (!IsThere(files, file)) continue;
    RETURN_IF_ERROR(CopyFile(files, file, absl::StrCat(to, "/", name)));
  }
  if (tokenizer != nullptr) RETURN_IF_ERROR(tokenizer->Save(to));
  const std::string places = absl::StrCat(to, "/", kWeightPlaces);
  if (const json weights = WeightPlacesOf(model_directory); !weights.is_null()) {
    RETURN_IF_ERROR(WriteFileAtomically(files, places, weights.dump() + "\n"));
  } else {
    RETURN_IF_ERROR(RemoveIfThere(files, places));
  }
  return WriteFileAtomically(files, absl::StrCat(to, "/", kConfig), config.dump(2) + "\n");
}

absl::Status CopyModelFiles(const std::string& from, const std::string& to, FileSystem& files) {
  if (!IsThere(files, from)) return absl::OkStatus();
  RETURN_IF_ERROR(CreateDirectories(files, to));
  ASSIGN_OR_RETURN(std::vector<std::string> names, OtherFiles(files, from));
  if (IsThere(files, absl::StrCat(from, "/", kConfig))) names.push_back(kConfig);
  for (const std::string& name : names) {
    RETURN_IF_ERROR(CopyFile(files, absl::StrCat(from, "/", name), absl::StrCat(to, "/", name)));
  }
  return absl::OkStatus();
}

absl::StatusOr<DType> ExportModel(const StateSource& state, const std::string& source_directory,
                                  const std::string& to, const ModelExportOptions& asked,
                                  FileSystem& files) {
  RETURN_IF_ERROR(CreateDirectories(files, to));
  const std::string config_path = absl::StrCat(to, "/", kConfig);
  json config;
  const std::string saved = absl::StrCat(source_directory, "/", kConfig);
  if (IsThere(files, saved)) {
    ASSIGN_OR_RETURN(const std::string text, files.ReadSmallFile(saved));
    config = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!config.is_object()) {
      return absl::DataLossError(absl::StrCat(saved, " is not a JSON object"));
    }
  }
  ExportOptions options;
  options.places = ReadWeightPlaces(files, source_directory);
  for (auto& [name, place] : options.places) {
    if (asked.dtype) place.dtype.reset();
    if (asked.max_shard_bytes) place.file.clear();
  }
  options.dtype = asked.dtype.value_or(SavedDType(config));
  options.max_shard_bytes = asked.max_shard_bytes.value_or(kDefaultShardBytes);
  options.leave_out = asked.leave_out;
  options.change = asked.change;
  RETURN_IF_ERROR(RemoveIfThere(files, config_path));
  RETURN_IF_ERROR(ExportWeights(state, options, to, files));
  if (config.is_null()) return options.dtype;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, OtherFiles(files, source_directory));
  for (const std::string& name : names) {
    if (name == kWeightPlaces || name == kAdapterConfigName) continue;
    RETURN_IF_ERROR(
        CopyFile(files, absl::StrCat(source_directory, "/", name), absl::StrCat(to, "/", name)));
  }
  config["torch_dtype"] = TorchName(options.dtype);  // until transformers 4.55
  config["dtype"] = TorchName(options.dtype);        // since
  RETURN_IF_ERROR(WriteFileAtomically(files, config_path, config.dump(2) + "\n"));
  return options.dtype;
}

}  // namespace spillway
