// An adapter's export has what PEFT expects of the file, and is matched with the model again.
#include "engine/adapters/adapter_export.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter_file.h"
#include "engine/adapters/adapter_layout.h"
#include "engine/base/shallow_json.h"
#include "engine/weights/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr char kPeft[] = "base_model.model.";

// The i-th parameter of all is i + 1 everywhere. The units from `frozen` on are not trained.
StateSource StateOf(ModelDescription model, size_t frozen) {
  for (size_t unit = frozen; unit < model.units.size(); ++unit) model.units[unit].frozen = true;
  EXPECT_TRUE(LayOutParameters(model).ok());
  StateSource source;
  source.model = model;
  source.dtype = DType::kFloat32;
  source.layout = DescribeState(model, OptimizerSpec(), DType::kFloat32, 0);
  source.read = [model](int, int, const SwapManager::FillTile& visit) -> absl::Status {
    float number = 0;
    for (int unit = 0; unit < static_cast<int>(model.units.size()); ++unit) {
      std::vector<float> values(model.units[unit].flat_parameters);
      for (const ParameterDescription& parameter : model.units[unit].parameters) {
        std::fill_n(values.begin() + static_cast<int64_t>(parameter.offset), parameter.elements,
                    ++number);
      }
      char* planes[] = {reinterpret_cast<char*>(values.data()), nullptr, nullptr};
      TileView view;
      view.unit = unit;
      view.parameters = values.size();
      view.planes = planes;
      const absl::Status status = visit(view);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  };
  return source;
}

LoraConfig SavingConfig(std::vector<std::string> saved) {
  LoraConfig config;
  config.r = 1;
  config.targets = {"q"};
  config.modules_to_save = std::move(saved);
  return config;
}

// With adapters of rank 1 beside q, which are the first unit's; of the rest there is one unit.
ModelDescription ModelWith(const std::vector<ParameterDescription>& others) {
  ModelDescription model;
  model.units = {{"layer", {{"h.q.weight", {2, 2}}}}, {"other", others}};
  model.units[0].parameters[0].linear = LinearWeight::kOutIn;
  return model;
}

StateSource AdaptedState(const ModelDescription& model, const LoraConfig& config) {
  return StateOf(WithAdapters(*LayOutAdapters(model, config), model), 1);
}

// The first value of each tensor, without PEFT's prefix.
std::map<std::string, float> FirstValues(const std::string& directory) {
  std::map<std::string, float> values;
  const auto file = *SafetensorsFile::Open(directory + "/" + kAdapterWeightsName);
  for (const SafetensorsTensor& tensor : file->tensors()) {
    float value = 0;
    EXPECT_TRUE(file->ReadFp32(tensor.name, 0, 1, &value).ok());
    values[tensor.name.substr(sizeof(kPeft) - 1)] = value;
  }
  return values;
}

class AdapterExport : public testing::Test {
 protected:
  void Export(const StateSource& state, const LoraConfig& config, const TensorNames& names = {}) {
    const absl::Status status = ExportAdapter(state, AdapterConfigJson(config, "base", false),
                                              DType::kFloat32, dir_.path(), names);
    ASSERT_TRUE(status.ok()) << status;
  }

  absl::Status Match(const ModelDescription& model, const TensorNames& names = {}) {
    adapter_ = *AdapterFile::Open(dir_.path());
    return adapter_->Match(model, *LayOutAdapters(model, adapter_->config()), names);
  }

  const ScratchDirectory dir_;
  std::unique_ptr<AdapterFile> adapter_;
};

TEST_F(AdapterExport, HasWhatOfTheAdapterIsFrozen) {
  const ModelDescription model = ModelWith(
      {{"h.q.bias", {2}}, {"norm.bias", {2}}, {"norm.weight", {2}}, {"head.weight", {2}}});
  LoraConfig config = SavingConfig({"head"});
  Export(AdaptedState(model, config), config);
  std::map<std::string, float> expected = {
      {"h.q.lora_A.weight", 2}, {"h.q.lora_B.weight", 3}, {"head.weight", 7}};
  EXPECT_EQ(FirstValues(dir_.path()), expected);
  config.bias = LoraConfig::Bias::kLoraOnly;
  Export(AdaptedState(model, config), config);
  expected["h.q.base_layer.bias"] = 4;
  EXPECT_EQ(FirstValues(dir_.path()), expected);
  config.bias = LoraConfig::Bias::kAll;
  Export(AdaptedState(model, config), config);
  expected["norm.bias"] = 5;
  EXPECT_EQ(FirstValues(dir_.path()), expected);
  EXPECT_TRUE(Match(model).ok());
}

// Nothing behind the last value is read, such as a base of which the files are gone.
TEST_F(AdapterExport, ReadsNoFurtherThanItMust) {
  const LoraConfig config = SavingConfig({});
  StateSource state = AdaptedState(ModelWith({{"norm.weight", {2}}}), config);
  state.read = [read = state.read](int first, int last, const SwapManager::FillTile& visit) {
    return read(first, last, [&](const TileView& tile) {
      return tile.unit == 0 ? visit(tile) : absl::DataLossError("the base is gone");
    });
  };
  Export(state, config);
  EXPECT_EQ(FirstValues(dir_.path()).size(), 2u);
}

// A masked BERT's cls, of which the matrix is the tokens' and the bias has two names.
TEST_F(AdapterExport, ASavedModuleHasWhatIsTiedToIt) {
  const ModelDescription model = ModelWith({{"base.tokens.weight", {3, 2}}, {"cls.bias", {3}}});
  TensorNames names;
  names.shapes = {{"base.tokens.weight", {3, 2}}, {"cls.bias", {3}}};
  names.base_prefix = "base.";
  names.aliases = {{"cls.decoder.bias", "cls.bias"},
                   {"cls.tokens.weight", "base.tokens.weight"}};  // of a file without a head
  names.repeats = {"cls.decoder.bias", "cls.tokens.weight"};
  names.head = "cls.decoder.weight";
  names.tied_to = "base.tokens.weight";
  const LoraConfig config = SavingConfig({"cls"});
  Export(AdaptedState(model, config), config, names);
  const std::map<std::string, float> expected = {{"h.q.lora_A.weight", 2},
                                                 {"h.q.lora_B.weight", 3},
                                                 {"cls.decoder.weight", 4},
                                                 {"cls.bias", 5},
                                                 {"cls.decoder.bias", 5}};
  EXPECT_EQ(FirstValues(dir_.path()), expected);
  const absl::Status status = Match(model, names);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(adapter_->parameters(),
              UnorderedElementsAre("cls.bias", "h.q.lora_A.weight", "h.q.lora_B.weight"));
}

// PEFT finds GPT-NeoX's head by the name that transformers has given it.
TEST_F(AdapterExport, ARenamedModuleHasItsNewName) {
  const ModelDescription model = ModelWith({{"embed_out.weight", {3, 2}}});
  TensorNames names;
  names.shapes = {{"embed_out.weight", {3, 2}}};
  names.aliases = {{"lm_head.weight", "embed_out.weight"}};
  names.head = "embed_out.weight";
  const LoraConfig config = SavingConfig({"embed_out"});
  Export(AdaptedState(model, config), config, names);
  EXPECT_EQ(FirstValues(dir_.path()).at("lm_head.weight"), 4);
  EXPECT_EQ(ParseShallowJson(*ReadSmallFile(dir_ / kAdapterConfigName))["modules_to_save"],
            nlohmann::json({"lm_head"}));
  // Its layout is the one of the run's own name.
  const auto adapter = *AdapterFile::Open(dir_.path());
  ASSERT_TRUE(adapter->Match(model, *LayOutAdapters(model, config), names).ok());
  EXPECT_TRUE(adapter->Has("embed_out.weight"));
}

TEST_F(AdapterExport, ASavedNormHasItsRunningStatistics) {
  const ModelDescription model = ModelWith({{"norm.weight", {2}}, {"left.weight", {2}}});
  TensorNames names;
  names.shapes = {{"norm.running_mean", {2}}, {"norm.count", {}}, {"left.running_mean", {2}}};
  const LoraConfig config = SavingConfig({"norm"});
  StateSource state = AdaptedState(model, config);
  state.buffers = {{"norm.running_mean", {2}, {8, 9}},
                   {"norm.count", {}, {6}, true},
                   {"left.running_mean", {2}, {5, 5}}};
  Export(state, config, names);
  const std::map<std::string, float> expected = {{"h.q.lora_A.weight", 2},
                                                 {"h.q.lora_B.weight", 3},
                                                 {"norm.count", 6},
                                                 {"norm.running_mean", 8},
                                                 {"norm.weight", 4}};
  EXPECT_EQ(FirstValues(dir_.path()), expected);
  EXPECT_EQ((*SafetensorsFile::Open(dir_ / kAdapterWeightsName))
                ->Find(absl::StrCat(kPeft, "norm.count"))
                ->dtype,
            "I64");
  const absl::Status status = Match(model, names);
  ASSERT_TRUE(status.ok()) << status;
  float mean[2];
  ASSERT_TRUE(adapter_->Read("norm.running_mean", 0, 2, mean).ok());
  EXPECT_THAT(mean, ElementsAre(8, 9));
  // One that was written without them is an adapter, too.
  state.buffers.clear();
  Export(state, config, names);
  EXPECT_TRUE(Match(model, names).ok());
}

}  // namespace
}  // namespace spillway
