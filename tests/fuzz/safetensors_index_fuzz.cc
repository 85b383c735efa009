// model.safetensors.index.json: no name in it leads out of the model's directory.
#include "engine/weights/safetensors_index.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  const auto shards = ParseSafetensorsIndex(Text(data, size), "f");
  if (!shards.ok()) {
    Expect(shards.status(), {absl::StatusCode::kDataLoss});
    return 0;
  }
  SPILLWAY_CHECK(!shards->empty());
  for (const auto& [tensor, file] : *shards) {
    SPILLWAY_CHECK(!file.empty() && file != "." && file != ".." &&
                   file.find('/') == std::string::npos);
  }
  return 0;
}
