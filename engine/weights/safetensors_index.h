// model.safetensors.index.json: which file of a model in shards has which tensor.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace spillway {

// Of a model in one file, and of the index of one in shards.
inline constexpr absl::string_view kSafetensorsName = "model.safetensors";
inline constexpr absl::string_view kSafetensorsIndexName = "model.safetensors.index.json";

// Whether an export may have a file of weights of this name: the single one, or
// "model-00001-of-00002.safetensors".
bool IsWeightsFile(absl::string_view name);

struct SafetensorsIndex {
  // Tensor -> the name of a file beside the index. Not empty; every name stays in the directory.
  std::map<std::string, std::string> shard_of;
  nlohmann::json metadata;  // an object
};

// kDataLoss, "FILE:LINE: ...", for what is no index; `file` is what messages call it. Pure.
absl::StatusOr<SafetensorsIndex> ParseSafetensorsIndex(absl::string_view text,
                                                       absl::string_view file);

}  // namespace spillway
