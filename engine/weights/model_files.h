// The files of a Hugging Face directory beside its weights: config, generation config and
// tokenizer.
//
// A run keeps them in OUTPUT/source/, and with every copy of a commit, so that a commit can
// be exported at any time, without the directory that the model came from.
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

// Says there, and in a directory of PEFT's, what adapters are: engine/adapters/lora_config.h.
inline constexpr const char* kAdapterConfigName = "adapter_config.json";

// The model that the adapter in a directory belongs to, as its adapter_config.json says it; ""
// where nothing does.
std::string BaseModelOfAdapter(const std::string& directory);

// Whether SaveModelFiles, an export of weights or of an adapter may write a file of this name.
bool IsModelFileName(absl::string_view name);
// The folder in an export where chat templates beside the default one lie, each a .jinja file.
inline constexpr const char* kTemplatesFolder = "additional_chat_templates";

// Checks the files of a model's directory that SaveModelFiles would copy: that they lie in it, are
// plain files, and of those that are JSON that they are, with at most 4 MiB. kInvalidArgument.
absl::Status CheckSideFiles(const std::string& model_directory);

// OUTPUT/source.
std::string SourceDirectory(const std::string& output);

struct ModelFiles {
  const nlohmann::json& config;
  std::string directory;                 // that the model came from
  const Tokenizer* tokenizer = nullptr;  // null: none
  // As SaveExportLayout's.
  const TensorNames* names = nullptr;
  std::optional<DType> dtype = {};
  // Tokens that end what the trained model writes: the generation_config.json names them before
  // those that it names already.
  std::vector<int64_t> ends = {};
};

// Writes the config as config.json, the generation_config.json of the directory, what it says of
// sounds and pictures, the tokenizer's files, and how an export is laid out into `to`, created
// where missing. What another model has left there of such files goes.
absl::Status SaveModelFiles(const ModelFiles& model, const std::string& to,
                            FileSystem& files = FileSystem::Real());

// Copies what SaveModelFiles wrote in `from` to `to`, where both are in one file system or not;
// nothing where there is no `from`.
absl::Status CopyModelFiles(const std::string& from, const std::string& to,
                            FileSystem& files = FileSystem::Real());

struct ModelExportOptions {
  // None: that which was saved, or each tensor's where it came from; then the config's word for it
  // stays as well.
  std::optional<DType> dtype = {};
  std::optional<uint64_t> max_shard_bytes = {};  // none: in the files that they came in
  // As ExportOptions'.
  std::function<bool(const std::string& name)> leave_out = nullptr;
  std::function<absl::Status(const std::string& name, uint64_t first, std::vector<float>& values)>
      change = nullptr;
  // What the run read its frozen parameters from, under the names of its model: they are written
  // with those values, which the run may hold rounded to its dtype, or quantised. Null: as the run
  // holds them. So are what is quantised there itself, what it lacks, and `as_held`.
  WeightSource* original = nullptr;
  std::set<std::string> as_held = {};
};

// A Hugging Face directory in `to` (created where missing): the weights of `state`, and the files
// of `source_directory`, in place of another model's. config.json comes last, and so says that the
// rest is whole. Returns the dtype.
absl::StatusOr<DType> ExportModel(const StateSource& state, const std::string& source_directory,
                                  const std::string& to, const ModelExportOptions& asked = {},
                                  FileSystem& files = FileSystem::Real());

}  // namespace spillway
