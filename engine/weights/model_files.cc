#include "engine/weights/model_files.h"

#include <map>
#include <set>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/model_file.h"
#include "engine/base/shallow_json.h"
#include "engine/families/generation_config.h"
#include "engine/tokenizers/pipeline_tokenizer.h"
#include "engine/weights/export_layout.h"
#include "engine/weights/export_weights.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"
#include "io/own_files.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr const char* kConfig = "config.json";
constexpr const char* kGenerationConfig = "generation_config.json";
// Limit of the settings of generation and of processors for sounds or pictures, which an export
// copies for transformers.
constexpr uint64_t kMostCopiedBytes = 4 << 20;
constexpr const char* kCopiedFiles[] = {kGenerationConfig, "preprocessor_config.json",
                                        "processor_config.json"};
// Templates beside the default one are files in kTemplatesFolder; in a directory without folders,
// files with this prefix.
constexpr const char* kTemplatesFlat = "additional_chat_templates:";

// Whether a tokenizer's Save may write it.
bool IsTokenizerName(absl::string_view name) {
  return absl::StartsWith(name, kTemplatesFlat) || name == "bytes.json" || name == "chars.json" ||
         absl::c_linear_search(kTokenizerJsonFiles, name);
}

// Whether SaveModelFiles may write a file of this name, apart from config.json.
bool IsOwnName(absl::string_view name) {
  return IsTokenizerName(name) || absl::c_linear_search(kCopiedFiles, name);
}

// The text of a generation_config.json with model.ends added. If `given` is "", it is made from the
// config; "" if there are no ends either. REQUIRES: `given` is "" or a JSON object.
std::string WithEnds(const ModelFiles& model, const std::string& given) {
  const json parsed = given.empty() ? json() : ParseShallowJson(given);
  const std::optional<json> ending = GenerationConfigWithEnds(parsed, model.config, model.ends);
  if (!ending) return given;
  LogInfo(absl::StrCat("texts of the trained model end at the tokens ",
                       (*ending)["eos_token_id"].dump(), ", as its ", kGenerationConfig, " says"));
  return ending->dump(2) + "\n";
}

absl::Status CopyFile(FileSystem& files, const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(const std::string content,
                   ReadModelFile(ParentPath(from), FileName(from), kSmallFileBytes, files));
  return WriteFileAtomically(files, to, content, FileAccess::kShared);
}

// Reads one of kCopiedFiles, which is JSON.
absl::StatusOr<std::string> ReadCopiedFile(FileSystem& files, const std::string& directory,
                                           const char* name) {
  ASSIGN_OR_RETURN(const std::string content,
                   ReadModelFile(directory, name, kMostCopiedBytes, files));
  const std::string path = absl::StrCat(directory, "/", name);
  ASSIGN_OR_RETURN(const JsonDocument document, ParseStrictJson(content, path));
  if (document.value.is_object()) return content;
  return absl::InvalidArgumentError(absl::StrCat(path, ": not a JSON object"));
}

// The plain files of a directory except config.json.
absl::StatusOr<std::vector<std::string>> OtherFiles(FileSystem& files,
                                                    const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> all, files.List(directory));
  std::vector<std::string> names;
  for (const std::string& name : all) {
    if (name == kConfig || name[0] == '.' || IsAtomicWriteLeftover(name)) continue;
    const auto info = files.Stat(absl::StrCat(directory, "/", name), SymbolicLink::kFollow);
    if (info.ok() && info->kind == FileInfo::Kind::kFile) names.push_back(name);
  }
  return names;
}

// The files with such names in a directory, by name.
absl::StatusOr<std::map<std::string, FileInfo>> OwnFiles(FileSystem& files,
                                                         const std::string& directory) {
  std::map<std::string, FileInfo> own;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  for (const std::string& name : names) {
    if (!IsOwnName(name)) continue;
    const auto info = files.Stat(absl::StrCat(directory, "/", name));
    if (info.ok() && info->kind == FileInfo::Kind::kFile) own[name] = *info;
  }
  return own;
}

// Removes the files of another model that were not overwritten.
absl::Status RemoveFormer(FileSystem& files, const std::map<std::string, FileInfo>& before,
                          const std::string& directory) {
  ASSIGN_OR_RETURN(const auto now, OwnFiles(files, directory));
  for (const auto& [name, info] : before) {
    const auto found = now.find(name);
    if (found == now.end() || found->second.identity != info.identity) continue;
    RETURN_IF_ERROR(RemoveIfThere(files, absl::StrCat(directory, "/", name)));
  }
  return absl::OkStatus();
}

// fp32 if the config does not specify one.
DType SavedDType(const json& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto found = config.find(key);
    if (found == config.end()) continue;
    if (const auto dtype = DTypeOfTorchName(*found)) return *dtype;
  }
  return DType::kFloat32;
}

void SetDType(json& config, DType dtype) {
  bool said = false;
  for (const char* key : {"dtype", "torch_dtype"}) {  // since transformers 4.56, and before
    if (!config.contains(key)) continue;
    config[key] = TorchName(dtype);
    said = true;
  }
  if (!said) config["torch_dtype"] = TorchName(dtype);  // which later versions read as well
}

absl::Status SaveTemplates(FileSystem& files, const std::string& model_directory,
                           const std::string& to) {
  const std::string folder = absl::StrCat(model_directory, "/", kTemplatesFolder);
  if (!Exists(folder, files)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, OtherFiles(files, folder));
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, ".jinja")) continue;
    RETURN_IF_ERROR(CopyFile(files, absl::StrCat(folder, "/", name),
                             absl::StrCat(to, "/", kTemplatesFlat, name)));
  }
  return absl::OkStatus();
}

// The path in an export of a file that a run stores.
absl::StatusOr<std::string> ExportedPath(FileSystem& files, const std::string& to,
                                         absl::string_view name) {
  if (!absl::ConsumePrefix(&name, kTemplatesFlat)) return absl::StrCat(to, "/", name);
  RETURN_IF_ERROR(
      CreateDirectories(files, absl::StrCat(to, "/", kTemplatesFolder), FileAccess::kShared));
  return absl::StrCat(to, "/", kTemplatesFolder, "/", name);
}

// Removes from `to` files of another model's export that are not among the `names` that a run
// stores.
absl::Status RemoveOthers(FileSystem& files, const std::set<std::string>& names,
                          const std::string& to) {
  // If the run stores no tokenizer, a user may have added one.
  const bool tokenizes = absl::c_any_of(names, IsTokenizerName);
  ASSIGN_OR_RETURN(const auto own, OwnFiles(files, to));
  for (const auto& [name, info] : own) {
    if (names.count(name) > 0 || (IsTokenizerName(name) && !tokenizes)) continue;
    LogInfo(absl::StrCat("removing ", to, "/", name, ", which this model has not got"));
    RETURN_IF_ERROR(RemoveIfThere(files, absl::StrCat(to, "/", name)));
  }
  if (!tokenizes) return absl::OkStatus();
  const std::string folder = absl::StrCat(to, "/", kTemplatesFolder);
  if (!Exists(folder, files)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> templates, OtherFiles(files, folder));
  for (const std::string& name : templates) {
    const bool stays = names.count(absl::StrCat(kTemplatesFlat, name)) > 0;
    if (stays || !absl::EndsWith(name, ".jinja")) continue;
    RETURN_IF_ERROR(RemoveIfThere(files, absl::StrCat(folder, "/", name)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string BaseModelOfAdapter(const std::string& directory) {
  const auto text = ReadModelFile(directory, kAdapterConfigName, kMostCopiedBytes);
  const json config = ParseShallowJson(text.ok() ? *text : "");
  if (!config.is_object()) return "";
  const json base = config.value("base_model_name_or_path", json());
  return base.is_string() ? base.get<std::string>() : "";
}

bool IsModelFileName(absl::string_view name) {
  for (const char* end : {".safetensors", ".json", ".partial"}) {
    if (absl::EndsWith(name, end)) return true;
  }
  return IsOwnName(name);
}

std::string SourceDirectory(const std::string& output) { return output + "/source"; }

absl::Status CheckSideFiles(const std::string& model_directory) {
  FileSystem& files = FileSystem::Real();
  for (const char* name : kCopiedFiles) {
    if (!Exists(absl::StrCat(model_directory, "/", name))) continue;
    RETURN_IF_ERROR(ReadCopiedFile(files, model_directory, name).status());
  }
  std::vector<std::string> names(std::begin(kTokenizerJsonFiles), std::end(kTokenizerJsonFiles));
  const std::string templates = absl::StrCat(model_directory, "/", kTemplatesFolder);
  if (Exists(templates)) {
    ASSIGN_OR_RETURN(const std::vector<std::string> all, files.List(templates));
    for (const std::string& name : all) names.push_back(absl::StrCat(kTemplatesFolder, "/", name));
  }
  for (const std::string& name : names) {
    const absl::Status checked = CheckModelFile(model_directory, name);
    if (!checked.ok() && !absl::IsNotFound(checked)) return checked;
  }
  return absl::OkStatus();
}

absl::Status SaveModelFiles(const ModelFiles& model, const std::string& to, FileSystem& files) {
  const std::string& model_directory = model.directory;
  RETURN_IF_ERROR(CreateDirectories(files, to, FileAccess::kShared));
  RETURN_IF_ERROR(RemoveAtomicWriteLeftovers(files, to));  // of a run that was killed
  ASSIGN_OR_RETURN(const auto before, OwnFiles(files, to));
  // Without a generation_config.json its readers derive everything from config.json.
  for (const char* name : kCopiedFiles) {
    std::string content;
    if (Exists(absl::StrCat(model_directory, "/", name), files)) {
      ASSIGN_OR_RETURN(content, ReadCopiedFile(files, model_directory, name));
    }
    if (name == absl::string_view(kGenerationConfig)) content = WithEnds(model, content);
    if (content.empty()) continue;
    // Written once: RemoveFormer identifies files by inode, which a second write could reuse.
    RETURN_IF_ERROR(
        WriteFileAtomically(files, absl::StrCat(to, "/", name), content, FileAccess::kShared));
  }
  if (model.tokenizer != nullptr) {
    RETURN_IF_ERROR(model.tokenizer->Save(to));
    RETURN_IF_ERROR(SaveTemplates(files, model_directory, to));
  }
  if (files.Resolve(model_directory) != files.Resolve(to)) {
    RETURN_IF_ERROR(RemoveFormer(files, before, to));
  }
  RETURN_IF_ERROR(SaveExportLayout(model_directory, model.names, model.dtype, to, files));
  return WriteFileAtomically(files, absl::StrCat(to, "/", kConfig), model.config.dump(2) + "\n",
                             FileAccess::kShared);
}

absl::Status CopyModelFiles(const std::string& from, const std::string& to, FileSystem& files) {
  if (!Exists(from, files)) return absl::OkStatus();
  // Creates this directory only: if its parent is gone meanwhile, that is an error.
  const absl::Status made = files.CreateDirectory(to, FileAccess::kShared);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  RETURN_IF_ERROR(SyncIntoParent(files, to));
  ASSIGN_OR_RETURN(std::vector<std::string> names, OtherFiles(files, from));
  if (Exists(absl::StrCat(from, "/", kConfig), files)) names.push_back(kConfig);
  for (const std::string& name : names) {
    RETURN_IF_ERROR(CopyFile(files, absl::StrCat(from, "/", name), absl::StrCat(to, "/", name)));
  }
  return absl::OkStatus();
}

namespace {

// The frozen parameters whose values in the run may differ from those in `asked.original`.
std::set<std::string> FromOriginal(const StateSource& state, const ModelExportOptions& asked) {
  std::set<std::string> names;
  if (asked.original == nullptr) return names;
  for (const UnitDescription& unit : state.model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      const std::string& name = parameter.name;
      const bool exact = state.dtype == DType::kFloat32 && !parameter.packing.any();
      if (!unit.frozen || exact || asked.as_held.contains(name)) continue;
      if (asked.original->packed(name) != PackedFormat::kNone) continue;
      const auto stored = asked.original->Stored(name);
      if (stored && stored->dtype == state.dtype && !parameter.packing.any()) continue;
      float value = 0;
      if (absl::IsNotFound(asked.original->Read(name, 0, 1, &value))) continue;
      names.insert(name);
    }
  }
  return names;
}

}  // namespace

absl::StatusOr<DType> ExportModel(const StateSource& state, const std::string& source_directory,
                                  const std::string& to, const ModelExportOptions& asked,
                                  FileSystem& files) {
  RETURN_IF_ERROR(CreateDirectories(files, to, FileAccess::kShared));
  const std::string config_path = absl::StrCat(to, "/", kConfig);
  json config;
  const std::string saved = absl::StrCat(source_directory, "/", kConfig);
  if (Exists(saved, files)) {
    ASSIGN_OR_RETURN(const std::string text, files.ReadSmallFile(saved));
    config = ParseShallowJson(text);
    if (!config.is_object()) {
      return absl::DataLossError(absl::StrCat(saved, " is not a JSON object"));
    }
  }
  ExportOptions options;
  options.layout = ReadExportLayout(source_directory, files);
  const bool dtype_as_it_came =
      !asked.dtype && !options.layout.dtype && !options.layout.places.empty();
  options.dtype = asked.dtype            ? *asked.dtype
                  : options.layout.dtype ? *options.layout.dtype
                                         : options.layout.FirstDType().value_or(SavedDType(config));
  for (auto& [parameter, tensors] : options.layout.places) {
    for (TensorPlace& place : tensors) {
      if (!dtype_as_it_came) place.dtype.reset();
      if (asked.max_shard_bytes) place.file.clear();
    }
  }
  for (ExportTensor& zeros : options.layout.zeros) {
    if (!dtype_as_it_came) zeros.dtype = options.dtype;
    if (asked.max_shard_bytes) zeros.file.clear();
  }
  options.max_shard_bytes = asked.max_shard_bytes.value_or(kDefaultShardBytes);
  options.leave_out = asked.leave_out;
  const std::set<std::string> from_original = FromOriginal(state, asked);
  options.change = [&](const std::string& name, uint64_t first,
                       std::vector<float>& values) -> absl::Status {
    if (from_original.contains(name)) {
      RETURN_IF_ERROR(asked.original->Read(name, first, values.size(), values.data()));
    }
    return asked.change ? asked.change(name, first, values) : absl::OkStatus();
  };
  RETURN_IF_ERROR(RemoveIfThere(files, config_path));
  RETURN_IF_ERROR(ExportWeights(state, options, to, files));
  if (config.is_null()) return options.dtype;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, OtherFiles(files, source_directory));
  RETURN_IF_ERROR(RemoveOthers(files, {names.begin(), names.end()}, to));
  for (const std::string& name : names) {
    if (name == kExportLayoutName || name == kAdapterConfigName) continue;
    ASSIGN_OR_RETURN(const std::string exported, ExportedPath(files, to, name));
    RETURN_IF_ERROR(CopyFile(files, absl::StrCat(source_directory, "/", name), exported));
  }
  if (!dtype_as_it_came) SetDType(config, options.dtype);
  RETURN_IF_ERROR(
      WriteFileAtomically(files, config_path, config.dump(2) + "\n", FileAccess::kShared));
  return options.dtype;
}

}  // namespace spillway
