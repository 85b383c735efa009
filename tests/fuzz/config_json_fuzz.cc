// A model's config.json: what is accepted makes a model of possible size, and can be exported.
#include "engine/base/work_count.h"
#include "engine/families/model_config.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(config_json, 3000) {
  const uint64_t began = WorkCount::now();
  const auto document = ParseStrictJson(input, "config.json");
  // Of every value a pointer is put together, of a KiB at most, but for some.
  SPILLWAY_CHECK(WorkCount::now() - began <= 1024 * (input.size() / 2 + 1) + (8 << 20));
  if (!document.ok()) {
    return Refuse(document.status(), {absl::StatusCode::kInvalidArgument});
  }
  const auto config = ParseModelConfig(*document);
  if (!config.ok()) {
    return Refuse(config.status(), {absl::StatusCode::kInvalidArgument});
  }
  SPILLWAY_CHECK(config->shape.model.parameter_count() > 0);
  SPILLWAY_CHECK(config->resnet.has_value() || config->transformer.head_size > 0);
  const nlohmann::json exported = ExportedConfig(*config);
  const auto again = ParseStrictJson(exported.dump(), "exported");
  SPILLWAY_CHECK(again.ok() && ParseModelConfig(*again).ok());
  return true;
}

}  // namespace spillway
