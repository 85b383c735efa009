// The header of a .npy file: whatever it says, what is accepted lies inside the file.
#include <cstdint>

#include "engine/data/token_file.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(npy_header, 5000) {
  const auto format = ParseNpyHeader(input.substr(0, kNpyHeadBytes), input.size());
  if (!format.ok()) {
    return Refuse(format.status(), {absl::StatusCode::kInvalidArgument});
  }
  SPILLWAY_CHECK(format->tokens >= 0 && format->data_offset_bytes <= input.size());
  SPILLWAY_CHECK(static_cast<uint64_t>(format->tokens) * format->width_bytes ==
                 input.size() - format->data_offset_bytes);
  return true;
}

}  // namespace spillway
