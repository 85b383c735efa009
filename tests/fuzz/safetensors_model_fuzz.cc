// A model directory: an index with its shards, which must agree, and what is quantised in them.
#include <vector>

#include "engine/weights/packed_tensors.h"
#include "engine/weights/safetensors_index.h"
#include "engine/weights/safetensors_model.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(safetensors_model, 400) {
  static const ScratchDirectory directory;
  directory.Empty();
  const auto files = FilesOf(input);
  for (const auto& [name, content] : files) {
    if (name == kSafetensorsIndexName) directory.Write(name, content);
    if (IsWeightsFile(name) && name.size() < 64 && name.find('\0') == std::string::npos) {
      directory.Write(name, SafetensorsOf(content));
    }
  }
  const auto model = SafetensorsModel::Open(directory.path());
  if (!model.ok()) {
    return Refuse(model.status(), {absl::StatusCode::kDataLoss, absl::StatusCode::kInvalidArgument,
                                   absl::StatusCode::kNotFound});
  }
  SPILLWAY_CHECK((*model)->Fingerprint().ok() && !(*model)->files().empty());
  for (const SafetensorsTensor* tensor : (*model)->tensors()) {
    SPILLWAY_CHECK((*model)->Find(tensor->name) == tensor && tensor->size_bytes <= 1 << 16);
    std::vector<char> bytes(tensor->size_bytes);
    SPILLWAY_CHECK((*model)->ReadBytes(tensor->name, 0, bytes.size(), bytes.data()).ok());
    std::vector<float> values(tensor->elements);
    const absl::Status read = (*model)->Read(tensor->name, 0, values.size(), values.data());
    if (!read.ok()) Refuse(read, {absl::StatusCode::kInvalidArgument});
    const auto stored = (*model)->Stored(tensor->name);
    if (stored) SPILLWAY_CHECK(stored->offset_bytes + stored->size_bytes <= stored->file_bytes);
  }
  const auto packed = PackedTensors::Find(model->get());
  if (!packed.ok()) return Refuse(packed.status(), {absl::StatusCode::kInvalidArgument});
  for (const SafetensorsTensor* tensor : (*model)->tensors()) {
    const PackedShape shape = packed->shape(tensor->name);
    if (shape.format == PackedFormat::kNone) continue;
    SPILLWAY_CHECK(shape.codes_bytes() == tensor->size_bytes && shape.bytes() <= 1 << 18);
    std::vector<char> bytes(shape.bytes());
    SPILLWAY_CHECK(packed->Read(tensor->name, bytes.data()).ok());
  }
  return true;
}

}  // namespace spillway
