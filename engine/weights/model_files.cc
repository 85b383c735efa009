#include "engine/weights/model_files.h"

#include <sys/stat.h>

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/weights/export_weights.h"
#include "io/base/status.h"
#include "io/file.h"
#include "io/file_system.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kConfig = "config.json";
constexpr const char* kGenerationConfig = "generation_config.json";
// A tokenizer.json of the largest vocabularies has 35 MB.
constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;

absl::Status MakeDirectory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("create ", path)) : absl::OkStatus();
}

absl::Status CopyFile(const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(const std::string content, ReadSmallFile(from, kMaxFileBytes));
  return WriteFileAtomically(to, content);
}

// The plain files of a directory but config.json.
absl::StatusOr<std::vector<std::string>> OtherFiles(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name != kConfig && name[0] != '.' &&
        name.find(".tmp-") == std::string::npos) {
      names.push_back(name);
    }
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("list ", directory));
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

// fp32 where the config does not say.
DType SavedDType(const json& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto found = config.find(key);
    if (found == config.end()) continue;
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      if (*found == TorchName(dtype)) return dtype;
    }
  }
  return DType::kFloat32;
}

}  // namespace

std::string SourceDirectory(const std::string& output) { return output + "/source"; }

absl::Status SaveModelFiles(const json& config, const std::string& model_directory,
                            const Tokenizer* tokenizer, const std::string& to) {
  RETURN_IF_ERROR(MakeDirectory(to));
  const std::string generation = absl::StrCat(model_directory, "/", kGenerationConfig);
  std::error_code error;
  if (fs::exists(generation, error)) {
    RETURN_IF_ERROR(CopyFile(generation, absl::StrCat(to, "/", kGenerationConfig)));
  } else {
    RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(to, "/", kGenerationConfig),
                                        GenerationConfig(config).dump(2) + "\n"));
  }
  if (tokenizer != nullptr) RETURN_IF_ERROR(tokenizer->Save(to));
  return WriteFileAtomically(absl::StrCat(to, "/", kConfig), config.dump(2) + "\n");
}

absl::Status CopyModelFiles(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!fs::exists(from, error)) return absl::OkStatus();
  RETURN_IF_ERROR(MakeDirectory(to));
  ASSIGN_OR_RETURN(std::vector<std::string> names, OtherFiles(from));
  if (fs::exists(absl::StrCat(from, "/", kConfig), error)) names.push_back(kConfig);
  for (const std::string& name : names) {
    RETURN_IF_ERROR(CopyFile(absl::StrCat(from, "/", name), absl::StrCat(to, "/", name)));
  }
  return absl::OkStatus();
}

absl::StatusOr<DType> ExportModel(const StateSource& state, std::optional<DType> dtype,
                                  const std::string& source_directory, const std::string& to,
                                  uint64_t max_shard_bytes) {
  RETURN_IF_ERROR(MakeDirectory(to));
  const std::string config_path = absl::StrCat(to, "/", kConfig);
  json config;
  std::error_code error;
  const std::string saved = absl::StrCat(source_directory, "/", kConfig);
  if (fs::exists(saved, error)) {
    ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(saved, kMaxFileBytes));
    config = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!config.is_object()) {
      return absl::DataLossError(absl::StrCat(saved, " is not a JSON object"));
    }
  }
  if (!dtype) dtype = SavedDType(config);
  fs::remove(config_path, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("remove ", config_path));
  RETURN_IF_ERROR(ExportWeights(state, *dtype, to, max_shard_bytes));
  if (config.is_null()) return *dtype;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, OtherFiles(source_directory));
  for (const std::string& name : names) {
    RETURN_IF_ERROR(
        CopyFile(absl::StrCat(source_directory, "/", name), absl::StrCat(to, "/", name)));
  }
  config["torch_dtype"] = TorchName(*dtype);  // until transformers 4.55
  config["dtype"] = TorchName(*dtype);        // since
  RETURN_IF_ERROR(WriteFileAtomically(config_path, config.dump(2) + "\n"));
  return *dtype;
}

}  // namespace spillway
