// The files of a Hugging Face directory beside its weights: config, generation config and
// tokenizer.
//
// A run keeps them in OUTPUT/source/, and with every copy of a commit, so that a commit can
// be exported at any time, without the directory that the model came from.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/tokenizer.h"
#include "engine/numeric/dtype.h"
#include "engine/weights/safetensors_model_writer.h"
#include "engine/weights/state_source.h"
#include "nlohmann/json.hpp"

namespace spillway {

// OUTPUT/source.
std::string SourceDirectory(const std::string& output);

// Writes `config` as config.json, the generation_config.json of `model_directory` (or, where
// it has none, one with the special tokens that `config` names), and the tokenizer's files
// (null: none) into `to`, created where missing.
absl::Status SaveModelFiles(const nlohmann::json& config, const std::string& model_directory,
                            const Tokenizer* tokenizer, const std::string& to);

// Copies what SaveModelFiles wrote in `from` to `to`, where both are in one file system or not;
// nothing where there is no `from`.
absl::Status CopyModelFiles(const std::string& from, const std::string& to);

// A Hugging Face directory in `to` (created where missing): the weights of `state` in `dtype`
// (default: the one that the saved config names) and the files of `source_directory`.
// config.json comes last, and so says that the rest is whole. Returns the dtype.
absl::StatusOr<DType> ExportModel(const StateSource& state, std::optional<DType> dtype,
                                  const std::string& source_directory, const std::string& to,
                                  uint64_t max_shard_bytes = kDefaultShardBytes);

}  // namespace spillway
