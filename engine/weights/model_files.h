// The files of a Hugging Face directory beside its weights: config, generation config and
// tokenizer.
//
// A run stores them in OUTPUT/source/, and with every copy of a commit, so that a commit can be
// exported at any time, without the directory that the model came from.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/tensor_names.h"
#include "engine/tokenizers/tokenizer.h"
#include "engine/weights/safetensors_model_writer.h"
#include "engine/weights/state_source.h"
#include "engine/weights/weight_source.h"
#include "nlohmann/json.hpp"

namespace spillway {

// In OUTPUT/source/ and in PEFT's directories, this file describes the adapters:
// engine/adapters/lora_config.h.
inline constexpr const char* kAdapterConfigName = "adapter_config.json";

// The base model named by the adapter_config.json in a directory; "" if none is.
std::string BaseModelOfAdapter(const std::string& directory);

// Whether SaveModelFiles, an export of weights or of an adapter may write a file of this name.
bool IsModelFileName(absl::string_view name);
// The folder in an export where chat templates beside the default one lie, each a .jinja file.
inline constexpr const char* kTemplatesFolder = "additional_chat_templates";

// Checks the files of a model's directory that SaveModelFiles would copy: they must lie in it, be
// plain files, and if they are JSON be valid and at most 4 MiB. kInvalidArgument.
absl::Status CheckSideFiles(const std::string& model_directory);

// Returns OUTPUT/source.
std::string SourceDirectory(const std::string& output);

struct ModelFiles {
  const nlohmann::json& config;
  std::string directory;                 // where the model came from
  const Tokenizer* tokenizer = nullptr;  // null: no tokenizer
  // The argument of SaveExportLayout.
  const TensorNames* names = nullptr;
  std::optional<DType> dtype = {};
  // Tokens that end the trained model's texts: generation_config.json lists them before those that
  // it has already.
  std::vector<int64_t> ends = {};
};

// Writes to `to` (created if missing): the config as config.json, the directory's
// generation_config.json and settings of sounds and pictures, the tokenizer's files, and the layout
// of an export. Removes such files of another model.
absl::Status SaveModelFiles(const ModelFiles& model, const std::string& to,
                            FileSystem& files = FileSystem::Real());

// Copies the files of SaveModelFiles from `from` to `to`, also between file systems; does nothing
// if `from` does not exist.
absl::Status CopyModelFiles(const std::string& from, const std::string& to,
                            FileSystem& files = FileSystem::Real());

struct ModelExportOptions {
  // None: the saved dtype, or else that of each tensor in the model's files; the config's value
  // then stays, too.
  std::optional<DType> dtype = {};
  std::optional<uint64_t> max_shard_bytes = {};  // none: the files in which the model came
  // The member of ExportOptions.
  std::function<bool(const std::string& name)> leave_out = nullptr;
  std::function<absl::Status(const std::string& name, uint64_t first, std::vector<float>& values)>
      change = nullptr;
  // The source of the frozen parameters, by the names of the run's model: they are exported with
  // its values, which the run may hold rounded or quantised. Null: with the run's values, as are
  // parameters that are quantised in the source or missing there, and those of `as_held`.
  WeightSource* original = nullptr;
  std::set<std::string> as_held = {};
};

// Writes a Hugging Face directory to `to` (created if missing): the weights of `state` and the
// files of `source_directory`, replacing another model's. config.json is written last, which marks
// the rest as complete. Returns the dtype.
absl::StatusOr<DType> ExportModel(const StateSource& state, const std::string& source_directory,
                                  const std::string& to, const ModelExportOptions& asked = {},
                                  FileSystem& files = FileSystem::Real());

}  // namespace spillway
