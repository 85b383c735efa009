// The header of a safetensors file. The first two bytes are how many bytes of data follow it.
#include "engine/weights/safetensors_header.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  if (size < 2) return 0;
  const uint64_t data_bytes = data[0] + 256u * data[1];
  const absl::string_view json = Text(data + 2, size - 2);
  const uint64_t file_bytes = 8 + json.size() + data_bytes;
  const auto header = ParseSafetensorsHeader(json, file_bytes);
  if (!header.ok()) {
    Expect(header.status(), {absl::StatusCode::kDataLoss});
    return 0;
  }
  // The tensors fill the data exactly, side by side.
  uint64_t end_bytes = 8 + json.size();
  for (const SafetensorsTensor& tensor : header->tensors) {
    SPILLWAY_CHECK(tensor.offset_bytes == end_bytes);
    SPILLWAY_CHECK(tensor.size_bytes * 8 == tensor.elements * SafetensorsDtypeBits(tensor.dtype));
    end_bytes += tensor.size_bytes;
  }
  SPILLWAY_CHECK(end_bytes == file_bytes);
  return 0;
}
