// The directory of an adapter: its config, written as it was read, finds layers or says why not;
// its weights are those of these layers.
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter_file.h"
#include "engine/adapters/adapter_layout.h"
#include "engine/adapters/lora_config.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {
namespace {

const ModelDescription& AdaptedModel() {
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
  return model;
}

}  // namespace

SPILLWAY_FUZZ(adapter_config, 3000) {
  const auto config = ParseAdapterConfig(input, "adapter_config.json");
  if (!config.ok()) {
    return Refuse(config.status(), {absl::StatusCode::kInvalidArgument});
  }
  const auto again = ParseAdapterConfig(AdapterConfigJson(*config, "base", false).dump(), "again");
  SPILLWAY_CHECK(again.ok());
  // It may be of another model.
  const auto layout = LayOutAdapters(AdaptedModel(), *config);
  if (!layout.ok()) Refuse(layout.status(), {absl::StatusCode::kInvalidArgument});
  if (layout.ok()) SPILLWAY_CHECK(!layout->weights().empty() && layout->parameters() > 0);
  return true;
}

SPILLWAY_FUZZ(adapter_file, 400) {
  static const ScratchDirectory directory;
  directory.Empty();
  for (const auto& [name, content] : FilesOf(input)) {
    if (name == kAdapterConfigName) directory.Write(name, content);
    if (name == kAdapterWeightsName) directory.Write(name, SafetensorsOf(content));
  }
  const auto adapter = AdapterFile::Open(directory.path());
  if (!adapter.ok()) {
    return Refuse(adapter.status(),
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kDataLoss});
  }
  const auto layout = LayOutAdapters(AdaptedModel(), (*adapter)->config());
  if (!layout.ok()) return Refuse(layout.status(), {absl::StatusCode::kInvalidArgument});
  const absl::Status matches = (*adapter)->Match(AdaptedModel(), *layout, {});
  if (!matches.ok()) return Refuse(matches, {absl::StatusCode::kInvalidArgument});
  SPILLWAY_CHECK((*adapter)->Fingerprint().ok());
  for (const UnitDescription& unit : WithAdapters(*layout, AdaptedModel()).units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      if (!(*adapter)->Has(parameter.name)) continue;
      uint64_t elements = 1;
      for (const int64_t extent : parameter.shape) elements *= static_cast<uint64_t>(extent);
      std::vector<float> values(elements);
      const absl::Status read = (*adapter)->Read(parameter.name, 0, elements, values.data());
      if (!read.ok()) return Refuse(read, {absl::StatusCode::kInvalidArgument});
    }
  }
  return true;
}

}  // namespace spillway
