// A model's config.json: what its family makes of it, and what an export writes back.
//
// Families are entries of one table (family_table.cc).
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
  // What the model is: one of the kinds below that is there, otherwise the decoder.
  std::optional<ResNetConfig> resnet;
  TransformerConfig transformer;
  ModelShape shape;
  // The file as it was read: an export keeps what the user wrote.
  nlohmann::json original;
  // The config names the architecture of another head, which `task` takes the place of: files lack
  // what this one adds to the trunk, and may have what that one does.
  bool other_head = false;
  // One line for each key that neither we nor transformers know.
  std::vector<std::string> warnings;
  // What the model has and this build can't compute, "FILE:LINE: ...".
  std::vector<std::string> unsupported;
  // The files tie the logits to the embedding, and the model does not (WithUntiedLogits).
  bool untied = false;

  ModelTask task() const;
  // Of a model that gives labels; null: it does not.
  const ClassifierConfig* classifier() const;
};

// "gpt2, llama, ...", those that can be trained.
std::string SupportedModelTypes();
// Whether ParseModelConfig knows it, trained or not.
bool IsKnownFamily(const std::string& model_type);

// kInvalidArgument, "FILE:LINE: KEY is VALUE; expected ...", or the model type and those that there
// are. What is `unsupported` is for the caller to refuse or to show.
// `pointer`: to the model's object, where the document has more. `task`: what the model is to be
// for, whatever its architectures say: they become the family's of that task, in `original` too.
absl::StatusOr<ModelConfig> ParseModelConfig(const JsonDocument& document,
                                             const std::string& pointer = "",
                                             std::optional<ModelTask> task = std::nullopt);

// Reads and parses `dir`/config.json, to be trained or generated with: what is unsupported is
// kInvalidArgument. kNotFound when there is no file.
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& dir,
                                            std::optional<ModelTask> task = std::nullopt);

// Parses a changed config.json of the same model, `file`, and keeps what has been found out about
// the model besides.
absl::StatusOr<ModelConfig> ParseAgain(const ModelConfig& model, nlohmann::json config,
                                       const std::string& file, std::optional<ModelTask> task);

// The model with a matrix of logits of its own, which begins as the embedding's: what a model with
// tied logits becomes when one of the two is trained apart. kInvalidArgument for a family whose
// logits cannot be untied. REQUIRES: config.transformer.tied.
absl::StatusOr<ModelConfig> WithUntiedLogits(const ModelConfig& config);

// As what its config says that the model's matrices are quantised; kNone: they are not.
PackedFormat QuantisedAs(const nlohmann::json& config);

// Names and shapes that a file of such a model's weights has.
TensorNames TensorNamesOf(const ModelConfig& config);

// Parameters of a model of texts that have a row for each token: the matrices of tokens and, where
// they are not tied, of logits, and the bias of those.
std::set<std::string> ParametersByToken(const TransformerConfig& config);

// The config.json of an export: the original keys, and what transformers needs to load the
// directory as a model of the same task.
nlohmann::json ExportedConfig(const ModelConfig& config);

}  // namespace spillway
