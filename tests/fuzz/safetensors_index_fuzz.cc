// model.safetensors.index.json: no name in it leads out of the model's directory.
#include "engine/weights/safetensors_index.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  const auto index = ParseSafetensorsIndex(Text(data, size), "f");
  if (!index.ok()) {
    Expect(index.status(), {absl::StatusCode::kDataLoss});
    return 0;
  }
  SPILLWAY_CHECK(!index->shard_of.empty());
  SPILLWAY_CHECK(index->metadata.is_object());
  for (const auto& [tensor, file] : index->shard_of) {
    SPILLWAY_CHECK(!file.empty() && file != "." && file != ".." &&
                   file.find('/') == std::string::npos);
  }
  return 0;
}
