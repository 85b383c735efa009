// What a run with adapters leaves: the adapter as PEFT reads it, or the model with it merged in.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/adapters/lora_config.h"
#include "engine/model/tensor_names.h"
#include "engine/weights/model_files.h"
#include "engine/weights/state_source.h"
#include "io/file_system.h"

namespace spillway {

// Keeps `config` beside a run's model files, so that its commits can be exported. Null: the run has
// no adapters, and what one before its first commit has left there goes.
absl::Status SaveAdapterConfig(const nlohmann::json& config, const std::string& source_directory,
                               FileSystem& files = FileSystem::Real());

// What was kept there; nullopt: the run has no adapters.
absl::StatusOr<std::optional<nlohmann::json>> SavedAdapterConfig(
    const std::string& source_directory, FileSystem& files = FileSystem::Real());

// Writes adapter_model.safetensors, then adapter_config.json (`config`) into `to`, created where
// missing: all adapters, modules to save with their buffers and what is tied to them (as modules to
// save of their own, with ensure_weight_tying if there are two, so that PEFT has the same model),
// and biases, in `dtype`; what of them was frozen too. `names`: the model's, as transformers has
// them.
absl::Status ExportAdapter(const StateSource& state, const nlohmann::json& config, DType dtype,
                           const std::string& to, const TensorNames& names,
                           FileSystem& files = FileSystem::Real());

// As ExportModel, of a model without adapters: each adapted matrix is W + scale * B A, made in fp32
// and rounded once. W is the one of `options.original`, or, where the run has quantised it, what is
// left of it. Holds the adapters in memory, as fp32.
absl::StatusOr<DType> ExportMerged(const StateSource& state, const nlohmann::json& config,
                                   const std::string& source_directory, const std::string& to,
                                   const ModelExportOptions& options = {},
                                   FileSystem& files = FileSystem::Real());

}  // namespace spillway
