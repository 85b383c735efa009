// A whole safetensors file: opened, fingerprinted, and every tensor read.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/weights/safetensors.h"
#include "io/base/unique_fd.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  const UniqueFd memory(::memfd_create("fuzz", MFD_CLOEXEC));
  SPILLWAY_CHECK(::write(memory.get(), data, size) == static_cast<ssize_t>(size));
  const auto file = SafetensorsFile::Open(absl::StrCat("/proc/self/fd/", memory.get()));
  if (!file.ok()) {
    Expect(file.status(), {absl::StatusCode::kDataLoss});
    return 0;
  }
  SPILLWAY_CHECK((*file)->Fingerprint().ok());
  for (const SafetensorsTensor& tensor : (*file)->tensors()) {
    SPILLWAY_CHECK(tensor.elements <= 8 * size);
    std::vector<float> values(tensor.elements);
    const absl::Status read = (*file)->ReadFp32(tensor.name, 0, tensor.elements, values.data());
    if (!read.ok()) Expect(read, {absl::StatusCode::kInvalidArgument});
  }
  return 0;
}
