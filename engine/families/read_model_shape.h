// The shape of any model from its config.json alone, whether or not this build can train it. A pure
// function of values.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "engine/base/strict_json.h"
#include "engine/families/model_task.h"
#include "engine/model/model_shape.h"

namespace spillway {

// Exact for the families of engine/families/model_config.h and bert. For any other config with
// hidden size, layers, heads and vocabulary it is an approximation. kInvalidArgument, "FILE:LINE:
// ...", names the missing or invalid key. `task`: as in ParseModelConfig, for known families.
absl::StatusOr<ModelShape> ReadModelShape(const JsonDocument& document,
                                          std::optional<ModelTask> task = std::nullopt);

}  // namespace spillway
