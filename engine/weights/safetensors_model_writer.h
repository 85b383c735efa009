// Writing the weights of a model directory as a stream: one safetensors file, or shards and their
// index.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/weights/safetensors_writer.h"

namespace spillway {

// Which tensors go to which file, in order.
struct SafetensorsShard {
  std::string file_name;  // "model.safetensors" or "model-00001-of-00002.safetensors"
  std::vector<ExportTensor> tensors;
};

inline constexpr uint64_t kDefaultShardBytes = 5'000'000'000;  // as transformers' 5GB

// Fills files in order up to `max_shard_bytes`; a larger tensor gets a file of its own.
std::vector<SafetensorsShard> PlanShards(const std::vector<ExportTensor>& tensors,
                                         uint64_t max_shard_bytes = kDefaultShardBytes);

// The weights of a model directory: one file, or shards and their index, which comes
// last. Replaces weights that are there, such that at no moment a reader finds a mix.
class SafetensorsModelWriter {
 public:
  // `directory` exists.
  static absl::StatusOr<std::unique_ptr<SafetensorsModelWriter>> Create(
      absl::string_view directory, const std::vector<ExportTensor>& tensors,
      uint64_t max_shard_bytes = kDefaultShardBytes);

  // As SafetensorsWriter's, over all tensors in their order.
  absl::Status AppendFp32(const float* values, uint64_t count);
  absl::Status Finish();

 private:
  SafetensorsModelWriter() = default;
  absl::Status OpenShard();

  std::string directory_;
  std::vector<SafetensorsShard> shards_;
  size_t shard_ = 0;  // the one being written
  std::unique_ptr<SafetensorsWriter> writer_;
};

}  // namespace spillway
