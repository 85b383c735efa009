// model.safetensors.index.json: maps the tensors of a sharded model to its files.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace spillway {

// Names of a model in one file, and of the index of a sharded one.
inline constexpr absl::string_view kSafetensorsName = "model.safetensors";
inline constexpr absl::string_view kSafetensorsIndexName = "model.safetensors.index.json";

// Whether an export may have a file of weights of this name: the single one, or
// "model-00001-of-00002.safetensors".
bool IsWeightsFile(absl::string_view name);

struct SafetensorsIndex {
  // Tensor -> name of a file beside the index. Not empty; no name leads out of the directory.
  std::map<std::string, std::string> shard_of;
  nlohmann::json metadata;  // an object
};

// kDataLoss, "FILE:LINE: ...", for an invalid index; `file` is its name in messages. Pure.
absl::StatusOr<SafetensorsIndex> ParseSafetensorsIndex(absl::string_view text,
                                                       absl::string_view file);

}  // namespace spillway
