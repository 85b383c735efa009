// The weights of a run as safetensors, streamed tile by tile.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/weights/safetensors_model_writer.h"
#include "engine/weights/state_source.h"

namespace spillway {

// Writes every parameter, rounded from its fp32 master to `dtype`, into `directory`
// (created where missing): one file, or shards with an index. A tile of memory. A kill
// at any moment leaves no half file under a final name.
absl::Status ExportWeights(const StateSource& source, DType dtype, const std::string& directory,
                           uint64_t max_shard_bytes = kDefaultShardBytes);

}  // namespace spillway
