// Exports a run with adapters: the adapter in PEFT's format, or the model with it merged in.
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

// Stores `config` beside a run's model files, so that its commits can be exported. Null: the run
// has no adapters, and a config that an earlier run stored there is removed.
absl::Status SaveAdapterConfig(const nlohmann::json& config, const std::string& source_directory,
                               FileSystem& files = FileSystem::Real());

// The stored config; nullopt: the run has no adapters.
absl::StatusOr<std::optional<nlohmann::json>> SavedAdapterConfig(
    const std::string& source_directory, FileSystem& files = FileSystem::Real());

// Writes adapter_model.safetensors, then adapter_config.json (`config`) to `to` (created if
// missing), in `dtype`: all adapters, biases, and modules to save with their buffers and parameters
// tied to them (as further modules to save, with ensure_weight_tying if there are two, so that PEFT
// makes the same model), including frozen ones. `names`: the model's, as in transformers.
absl::Status ExportAdapter(const StateSource& state, const nlohmann::json& config, DType dtype,
                           const std::string& to, const TensorNames& names,
                           FileSystem& files = FileSystem::Real());

// Exports a model without adapters like ExportModel: each adapted matrix is W + scale * B A,
// computed in fp32 and rounded once. W is that of `options.original`, or the quantised matrix if
// the run quantised it. Holds the adapters in memory, as fp32.
absl::StatusOr<DType> ExportMerged(const StateSource& state, const nlohmann::json& config,
                                   const std::string& source_directory, const std::string& to,
                                   const ModelExportOptions& options = {},
                                   FileSystem& files = FileSystem::Real());

}  // namespace spillway
