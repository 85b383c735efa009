// A model's config.json: what is accepted makes a model of possible size, and can be exported.
#include "engine/families/model_config.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(config_json, 3000) {
  const auto document = ParseStrictJson(input, "config.json");
  if (!document.ok()) {
    return Refuse(document.status(), {absl::StatusCode::kInvalidArgument});
  }
  const auto config = ParseModelConfig(*document);
  if (!config.ok()) {
    return Refuse(config.status(), {absl::StatusCode::kInvalidArgument});
  }
  SPILLWAY_CHECK(config->shape.model.parameter_count() > 0);
  SPILLWAY_CHECK(config->resnet.has_value() || config->decoder.head_size > 0);
  const nlohmann::json exported = ExportedConfig(*config);
  const auto again = ParseStrictJson(exported.dump(), "exported");
  SPILLWAY_CHECK(again.ok() && ParseModelConfig(*again).ok());
  return true;
}

}  // namespace spillway
