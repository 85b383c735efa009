// Writes the weights of a model directory as a stream: one safetensors file, or shards and their
// index.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/weights/safetensors_writer.h"
#include "nlohmann/json.hpp"

namespace spillway {

// The tensors of one file, in order.
struct SafetensorsShard {
  std::string file_name;  // "model.safetensors" or "model-00001-of-00002.safetensors"
  std::vector<ExportTensor> tensors;
  std::string came_from = {};  // the file whose metadata it gets; empty: the one of its own name
};

inline constexpr uint64_t kDefaultShardBytes = 5'000'000'000;  // as transformers' 5GB

// The metadata of the files and of the index.
struct SafetensorsMetadata {
  std::map<std::string, std::map<std::string, std::string>> files;  // by name
  nlohmann::json index = nlohmann::json::object();  // its total_size is computed anew
};

// The files that the tensors name, if each names one; a single one is model.safetensors, whatever
// its name was, since there is no index. Otherwise fills files in order up to `max_shard_bytes`; a
// larger tensor gets a file of its own.
std::vector<SafetensorsShard> PlanShards(const std::vector<ExportTensor>& tensors,
                                         uint64_t max_shard_bytes = kDefaultShardBytes);

// Writes the weights of a model directory: one file, or shards and their index, which comes last.
// Replaces existing weights such that a reader never finds a mix.
class SafetensorsModelWriter {
 public:
  // `directory` exists.
  static absl::StatusOr<std::unique_ptr<SafetensorsModelWriter>> Create(
      absl::string_view directory, const std::vector<ExportTensor>& tensors,
      uint64_t max_shard_bytes = kDefaultShardBytes, SafetensorsMetadata metadata = {},
      FileSystem& files = FileSystem::Real());

  // Appends elements over all tensors in their order, like SafetensorsWriter::AppendFp32.
  absl::Status AppendFp32(const float* values, uint64_t count);
  absl::Status Finish();

 private:
  struct Place {
    size_t shard = 0;
    uint64_t left = 0;  // elements that are still missing
  };
  explicit SafetensorsModelWriter(FileSystem& files) : files_(files) {}
  absl::Status Open(size_t shard);
  absl::Status Close(size_t shard);

  FileSystem& files_;
  std::string directory_;
  SafetensorsMetadata metadata_;
  std::vector<SafetensorsShard> shards_;
  std::vector<std::unique_ptr<SafetensorsWriter>> writers_;  // [shard] while it is being written
  std::vector<bool> closed_;                                 // [shard]
  std::vector<Place> places_;                                // [tensor]
  size_t next_ = 0;  // the tensor that takes the next element
};

}  // namespace spillway
