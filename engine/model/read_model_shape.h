// The shape of a model from its config.json alone. A pure function of values.
#pragma once

#include "absl/status/statusor.h"
#include "engine/base/strict_json.h"
#include "engine/model/model_shape.h"

namespace spillway {

// gpt2, llama, mistral, qwen2, qwen3, gemma, bert, gpt_neox and opt exactly; of any other
// config with hidden size, layers, heads and vocabulary an approximation.
// kInvalidArgument, "FILE:LINE: ...", names the key that is missing or makes no sense.
absl::StatusOr<ModelShape> ReadModelShape(const JsonDocument& document);

}  // namespace spillway
