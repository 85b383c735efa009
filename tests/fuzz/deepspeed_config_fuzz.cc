// A DeepSpeed config, comments and all.
#include "engine/config/deepspeed_config.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  const auto config = ParseDeepSpeedConfig(Text(data, size), "f");
  if (!config.ok()) Expect(config.status(), {absl::StatusCode::kInvalidArgument});
  return 0;
}
