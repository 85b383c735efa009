// An adapter_config.json: what is accepted is written as it was read, and finds layers or says why
// not.
#include "engine/adapters/adapter_layout.h"
#include "engine/adapters/lora_config.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  static const ModelDescription& model = *new ModelDescription([] {
    ModelDescription two;
    for (const char* layer : {"0", "1"}) {
      UnitDescription& unit = two.units.emplace_back();
      unit.name = layer;
      for (const char* module : {"q_proj", "mlp.up_proj"}) {
        ParameterDescription& parameter = unit.parameters.emplace_back();
        parameter.name = absl::StrCat("model.layers.", layer, ".", module, ".weight");
        parameter.shape = {4, 6};
        parameter.linear = LinearWeight::kOutIn;
      }
    }
    return two;
  }());
  const auto config = ParseAdapterConfig(Text(data, size), "adapter_config.json");
  if (!config.ok()) {
    Expect(config.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  const auto again = ParseAdapterConfig(AdapterConfigJson(*config, "base", false).dump(), "again");
  SPILLWAY_CHECK(again.ok());
  const auto layout = LayOutAdapters(model, *config);
  if (!layout.ok()) {
    Expect(layout.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  SPILLWAY_CHECK(!layout->weights().empty() && layout->parameters() > 0);
  return 0;
}
