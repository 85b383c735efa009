// The header of a .npy file: whatever it says, what is accepted lies inside the file.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/data/token_file.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  const absl::string_view file = Text(data, size);
  const auto format = ParseNpyHeader(file.substr(0, kNpyHeadBytes), size);
  if (!format.ok()) {
    Expect(format.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  SPILLWAY_CHECK(format->tokens >= 0 && format->data_offset_bytes <= size);
  SPILLWAY_CHECK(static_cast<uint64_t>(format->tokens) * format->width_bytes ==
                 size - format->data_offset_bytes);
  return 0;
}
