// `spillway inspect`: tells what a path is, and what it contains.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/inspect/inspect_run.h"
#include "nlohmann/json.hpp"

namespace spillway {

// For a run (OUTPUT, a copy of a commit, or a manifest): the result of InspectCommit, or of
// InspectFreed if its state was freed. For a safetensors file or the directory of a model (or its
// index) or an adapter: {"kind": "safetensors", "metadata", "parameters", "bytes", "dtypes":
// {dtype: elements}, "files": [{file, bytes}], "tensors": [{name, dtype, shape, file, offset,
// bytes}]}. kNotFound and kInvalidArgument for a path that is none of these, with what would be;
// kDataLoss for one whose bytes are wrong. `digests`: whether the state of a run is read, for the
// digests of its planes.
absl::StatusOr<nlohmann::json> Inspect(const std::string& path,
                                       const InspectProgress& progress = {}, bool digests = true);

// The result of Inspect as text, in 80 columns unless names or paths are longer; control characters
// of names and metadata are shown as \xNN. For a run without digests: its kind and progress, in a
// dozen lines.
std::string InspectText(const nlohmann::json& json);

}  // namespace spillway
