#include "engine/weights/safetensors_index.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/strict_json.h"
#include "engine/weights/safetensors_header.h"
#include "io/base/status.h"

namespace spillway {

bool IsWeightsFile(absl::string_view name) {
  if (name == kSafetensorsName) return true;
  return absl::StartsWith(name, "model-") && absl::StrContains(name, "-of-") &&
         absl::EndsWith(name, ".safetensors") && !absl::StrContains(name, '/');
}

absl::StatusOr<SafetensorsIndex> ParseSafetensorsIndex(absl::string_view text,
                                                       absl::string_view file) {
  const auto index = ParseStrictJson(
      text, file,
      {.max_bytes = kSafetensorsMaxHeaderBytes, .max_depth = 8, .max_memory_bytes = SIZE_MAX});
  if (!index.ok()) return WrongBytesError(index.status().message());
  const nlohmann::json& root = index->value;
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object()) {
    return WrongBytesError(absl::StrCat(file, " has no \"weight_map\""));
  }
  SafetensorsIndex parsed;
  for (const auto& entry : root["weight_map"].items()) {
    const std::string& name = entry.key();
    const nlohmann::json& shard = entry.value();
    const auto where = [&] { return index->Where(JsonPointerTo("/weight_map", name)); };
    if (!shard.is_string()) {
      return WrongBytesError(absl::StrCat(where(), ": the file of '", name, "' is not a string"));
    }
    const std::string& shard_file = shard.get_ref<const std::string&>();
    const bool plain = !shard_file.empty() && shard_file[0] != '.' &&
                       shard_file.find('/') == std::string::npos &&
                       shard_file.find('\0') == std::string::npos;
    if (!plain) {
      return WrongBytesError(absl::StrCat(where(), ": '", shard_file,
                                          "' is not a file's name in the model's directory"));
    }
    parsed.shard_of[name] = shard_file;
  }
  if (parsed.shard_of.empty()) return WrongBytesError(absl::StrCat(file, " names no tensors"));
  const auto metadata = root.find("metadata");
  const bool has_metadata = metadata != root.end() && metadata->is_object();
  parsed.metadata = has_metadata ? *metadata : nlohmann::json::object();
  return parsed;
}

}  // namespace spillway
