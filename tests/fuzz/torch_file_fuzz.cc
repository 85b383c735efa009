// A file of torch.save: opened, fingerprinted, and every tensor read.
#include <vector>

#include "engine/weights/safetensors.h"
#include "engine/weights/torch_file.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(torch_file, 3000) {
  if (!BeginsAsTorchFile(input.substr(0, 8))) return false;
  const MemoryFile memory(input);
  const auto file = SafetensorsFile::Open(memory.path());
  if (!file.ok()) {
    return Refuse(file.status(), {absl::StatusCode::kDataLoss, absl::StatusCode::kInvalidArgument});
  }
  SPILLWAY_CHECK((*file)->Fingerprint().ok());
  for (const SafetensorsTensor& tensor : (*file)->tensors()) {
    SPILLWAY_CHECK(tensor.size_bytes <= input.size());
    std::vector<float> values(tensor.elements);
    const absl::Status read = (*file)->ReadFp32(tensor.name, 0, tensor.elements, values.data());
    if (!read.ok()) Refuse(read, {absl::StatusCode::kInvalidArgument});
  }
  return true;
}

}  // namespace spillway
