// The header of a safetensors file. The first two bytes are how many bytes of data follow it.
#include "engine/weights/safetensors_header.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(safetensors_header, 5000) {
  if (input.size() < 2) return false;
  const uint64_t data_bytes =
      static_cast<uint8_t>(input[0]) + 256u * static_cast<uint8_t>(input[1]);
  const absl::string_view json = input.substr(2);
  const uint64_t file_bytes = 8 + json.size() + data_bytes;
  const auto header = ParseSafetensorsHeader(json, file_bytes);
  if (!header.ok()) {
    return Refuse(header.status(), {absl::StatusCode::kDataLoss});
  }
  // The tensors fill the data exactly, side by side.
  uint64_t end_bytes = 8 + json.size();
  for (const SafetensorsTensor& tensor : header->tensors) {
    SPILLWAY_CHECK(tensor.offset_bytes == end_bytes);
    SPILLWAY_CHECK(tensor.size_bytes * 8 == tensor.elements * SafetensorsDtypeBits(tensor.dtype));
    end_bytes += tensor.size_bytes;
  }
  SPILLWAY_CHECK(end_bytes == file_bytes);
  return true;
}

}  // namespace spillway
