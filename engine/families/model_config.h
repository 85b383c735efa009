// A model's config.json, parsed by its family (an entry of family_table.cc), and the config.json of
// an export.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/strict_json.h"
#include "engine/families/model_task.h"
#include "engine/families/resnet_config.h"
#include "engine/families/transformer_config.h"
#include "engine/model/tensor_names.h"
#include "nlohmann/json.hpp"

namespace spillway {

struct ModelConfig {
  // The model is a ResNet if `resnet` is set, otherwise a transformer.
  std::optional<ResNetConfig> resnet;
  TransformerConfig transformer;
  ModelShape shape;
  // The file as it was read; an export keeps the user's keys.
  nlohmann::json original;
  // The config names the architecture of another head, which `task` replaces. Files lack this
  // head's tensors and may have the other head's.
  bool other_head = false;
  // One line for each unknown key.
  std::vector<std::string> warnings;
  // Features of the model that this build cannot compute: "FILE:LINE: ...".
  std::vector<std::string> unsupported;
  // The logits are tied in the files but not in the model (WithUntiedLogits).
  bool untied = false;

  ModelTask task() const;
  // The classification head; null if the model has none.
  const ClassifierConfig* classifier() const;
};

// The model types that can be trained: "gpt2, llama, ...".
std::string SupportedModelTypes();
// Whether ParseModelConfig knows the model type, trainable or not.
bool IsKnownFamily(const std::string& model_type);

// kInvalidArgument: "FILE:LINE: KEY is VALUE; expected ...", or an unknown model type with the list
// of known ones. The caller refuses or shows `unsupported`. `pointer`: JSON pointer to the model's
// object if the document has more. `task`: overrides the task that the architectures imply; they
// become the family's for that task, in `original` too.
absl::StatusOr<ModelConfig> ParseModelConfig(const JsonDocument& document,
                                             const std::string& pointer = "",
                                             std::optional<ModelTask> task = std::nullopt);

// Reads and parses `dir`/config.json for training or generation. kInvalidArgument if anything is
// unsupported, kNotFound without a file.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& dir,
                                            std::optional<ModelTask> task = std::nullopt);

// Parses a changed config.json of the same model, `file`, and keeps the model's other fields.
absl::StatusOr<ModelConfig> ParseAgain(const ModelConfig& model, nlohmann::json config,
                                       const std::string& file, std::optional<ModelTask> task);

// The model with its own matrix of logits, initialised from the embedding: needed if only one of
// two tied matrices is trained. kInvalidArgument for a family whose logits cannot be untied.
// REQUIRES: config.transformer.tied.
absl::StatusOr<ModelConfig> WithUntiedLogits(const ModelConfig& config);

// The quantisation format that a config declares for the model's matrices; kNone if they are not
// quantised.
PackedFormat QuantisedAs(const nlohmann::json& config);

// The names and shapes of tensors in the model's files.
TensorNames TensorNamesOf(const ModelConfig& config);

// Parameters with a row for each token: the token embedding and, if untied, the logits' matrix, and
// the logits' bias.
std::set<std::string> ParametersByToken(const TransformerConfig& config);

// The config.json of an export: the original keys, and what transformers needs to load the
// directory as a model of the same task.
nlohmann::json ExportedConfig(const ModelConfig& config);

}  // namespace spillway
