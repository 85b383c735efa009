// model.safetensors.index.json: no name in it leads out of the model's directory.
#include "engine/weights/safetensors_index.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(safetensors_index, 5000) {
  const auto index = ParseSafetensorsIndex(input, "f");
  if (!index.ok()) {
    return Refuse(index.status(), {absl::StatusCode::kDataLoss});
  }
  SPILLWAY_CHECK(!index->shard_of.empty());
  SPILLWAY_CHECK(index->metadata.is_object());
  for (const auto& [tensor, file] : index->shard_of) {
    SPILLWAY_CHECK(!file.empty() && file != "." && file != ".." &&
                   file.find('/') == std::string::npos);
  }
  return true;
}

}  // namespace spillway
