// Reads the weights of a model directory: one file, or shards and their index; written as
// safetensors or by torch.save.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/weights/safetensors.h"
#include "engine/weights/weight_source.h"
#include "nlohmann/json.hpp"

namespace spillway {

// The dtype of "F32", "BF16" or "F16"; none for others.
std::optional<DType> SafetensorsDType(absl::string_view name);

// The weights of a Hugging Face model directory. Any thread.
class SafetensorsModel final : public WeightSource {
 public:
  // Opens the file or index that FindWeightFiles finds; an index and its shards must agree with
  // each other. kNotFound means exactly: the directory has no weights, in no format. Weights in
  // another format, or a missing shard, are kInvalidArgument with the command that helps.
  static absl::StatusOr<std::unique_ptr<SafetensorsModel>> Open(absl::string_view directory);

  // The files by name, at least one. They live as long as this object.
  std::vector<const SafetensorsFile*> files() const;

  // The tensors of all files, sorted by name.
  std::vector<const SafetensorsTensor*> tensors() const;
  const SafetensorsTensor* Find(absl::string_view name) const;

  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override;

  // Reads a tensor of any dtype, like SafetensorsFile::ReadBytes.
  absl::Status ReadBytes(const std::string& name, uint64_t first, uint64_t count, void* out) const;

  std::optional<StoredTensor> Stored(const std::string& name) const override;

  // Dtype of the weights: that of the first tensor with a supported one.
  DType dtype() const;

  // The metadata of the (first) file.
  const std::map<std::string, std::string>& metadata() const { return files_[0]->metadata(); }

  // The metadata of the index; null without one.
  const nlohmann::json& index_metadata() const { return index_metadata_; }

  // 16 hex digits, for a run's identity.
  absl::StatusOr<std::string> Fingerprint() const;

 private:
  struct Place {
    const SafetensorsFile* file;
    const SafetensorsTensor* tensor;
  };
  SafetensorsModel() = default;
  absl::Status Add(std::unique_ptr<SafetensorsFile> file);

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Place> by_name_;
  nlohmann::json index_metadata_;
};

}  // namespace spillway
