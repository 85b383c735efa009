// Writes the weights of a run as safetensors, streamed tile by tile.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/weights/export_layout.h"
#include "engine/weights/safetensors_model_writer.h"
#include "engine/weights/state_source.h"

namespace spillway {

struct ExportOptions {
  DType dtype = DType::kFloat32;
  uint64_t max_shard_bytes = kDefaultShardBytes;
  ExportLayout layout = {};
  // Whether a parameter or buffer is left out. Null: none is.
  std::function<bool(const std::string& name)> leave_out = nullptr;
  // Changes a parameter's values, from element `first` on, before they are written. Null: no
  // change.
  std::function<absl::Status(const std::string& name, uint64_t first, std::vector<float>& values)>
      change = nullptr;
};

// Calls `visit` for every parameter's values in fp32, piece by piece in order, and stops at the
// first error. Takes a tile of memory.
absl::Status ReadValues(const StateSource& source,
                        const std::function<absl::Status(const std::string& name, uint64_t first,
                                                         std::vector<float>& values)>& visit);

// Writes every parameter, rounded from its fp32 master, and every buffer into `directory` (created
// if missing): one file, or shards with an index. Takes a tile of memory; a parameter that is
// several tensors is read again for the others. A kill at any moment leaves no partial file under a
// final name.
absl::Status ExportWeights(const StateSource& source, const ExportOptions& options,
                           const std::string& directory, FileSystem& files = FileSystem::Real());

// Writes one file of any name; the shards and metadata of `options` are ignored.
absl::Status ExportWeightsFile(const StateSource& source, const ExportOptions& options,
                               const std::string& path, FileSystem& files = FileSystem::Real());

}  // namespace spillway
