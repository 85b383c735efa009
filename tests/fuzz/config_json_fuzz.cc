// A model's config.json: what is accepted makes a model of possible size, and can be exported.
#include "engine/families/model_config.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  const auto document = ParseStrictJson(Text(data, size), "config.json");
  if (!document.ok()) {
    Expect(document.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  const auto config = ParseModelConfig(*document);
  if (!config.ok()) {
    Expect(config.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  SPILLWAY_CHECK(config->shape.model.parameter_count() > 0);
  SPILLWAY_CHECK(config->resnet.has_value() || config->decoder.head_size > 0);
  const nlohmann::json exported = ExportedConfig(*config);
  const auto again = ParseStrictJson(exported.dump(), "exported");
  SPILLWAY_CHECK(again.ok() && ParseModelConfig(*again).ok());
  return 0;
}
