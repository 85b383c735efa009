#include "engine/adapters/adapter_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter_file.h"
#include "engine/families/resnet_config.h"
#include "engine/weights/safetensors_writer.h"
#include "io/file_system.h"
#include "tests/scratch_directory.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const ModelDescription& Llama() {
  static const auto& model = *new ModelDescription(ConfigOf({{"model_type", "llama"},
                                                             {"vocab_size", 32},
                                                             {"hidden_size", 24},
                                                             {"num_hidden_layers", 12},
                                                             {"num_attention_heads", 4},
                                                             {"num_key_value_heads", 2},
                                                             {"mlp_bias", true},
                                                             {"intermediate_size", 40}})
                                                       .shape.model);
  return model;
}

LoraConfig Targets(std::vector<std::string> targets) {
  LoraConfig config;
  config.targets = std::move(targets);
  return config;
}

std::vector<std::string> Modules(const LoraConfig& config) {
  const auto layout = LayOutAdapters(Llama(), config);
  EXPECT_TRUE(layout.ok()) << layout.status();
  std::vector<std::string> modules;
  for (const AdaptedWeight* weight : layout->weights()) modules.push_back(weight->module);
  return modules;
}

std::string Refusal(const LoraConfig& config) {
  const auto layout = LayOutAdapters(Llama(), config);
  EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(layout.status().message());
}

TEST(AdapterLayout, NamesEndAsTargetsDo) {
  EXPECT_EQ(Modules(Targets({"q_proj"})).size(), 12u);
  EXPECT_EQ(Modules(Targets({"self_attn.q_proj", "up_proj"})).size(), 24u);
  EXPECT_THAT(Modules(Targets({"model.layers.3.mlp.up_proj"})),
              ElementsAre("model.layers.3.mlp.up_proj"));
  EXPECT_THAT(Refusal(Targets({"proj"})), HasSubstr("no layer of the model"));  // no whole part
  EXPECT_EQ(Modules(Targets({kAllLinear})).size(), 12u * 7);  // not the embedding, nor the head
}

TEST(AdapterLayout, PatternsLayersAndExclusions) {
  LoraConfig config;
  config.target_pattern = R"(.*\.[02]\..*[qk]_proj)";
  EXPECT_THAT(Modules(config),
              ElementsAre("model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj",
                          "model.layers.2.self_attn.q_proj", "model.layers.2.self_attn.k_proj"));
  config.excluded = {"k_proj"};
  config.layers = {2, 11};
  EXPECT_THAT(Modules(config), ElementsAre("model.layers.2.self_attn.q_proj"));
  config = Targets({"o_proj"});
  config.layers = {1};
  EXPECT_THAT(Modules(config), ElementsAre("model.layers.1.self_attn.o_proj"));
  config.layers_pattern = {"blocks", "layers"};
  EXPECT_THAT(Modules(config), ElementsAre("model.layers.1.self_attn.o_proj"));
  config.layers_pattern = {"blocks"};
  EXPECT_THAT(Refusal(config), HasSubstr("of the layers that are named"));
  // Some of what is named may be excluded, as where PEFT has spelt "all-linear" out.
  config = Targets({"q_proj", "k_proj", "model.layers.7.mlp.up_proj"});
  config.excluded = {"k_proj", "up_proj"};
  EXPECT_EQ(Modules(config).size(), 12u);
  config.excluded_pattern = ".*";
  EXPECT_THAT(Refusal(config), HasSubstr("excluded"));
}

// As PEFT reads them: the first number is the layer's, others are of parts of it.
TEST(AdapterLayout, TheFirstNumberOfANameIsItsLayer) {
  ModelDescription t5;
  t5.units = {{"stack", {}}};
  for (const char* module :
       {"decoder.block.0.layer.1.EncDecAttention.q", "decoder.block.1.layer.0.SelfAttention.q",
        "decoder.block.1.layer.1.EncDecAttention.q", "q"}) {
    ParameterDescription parameter{absl::StrCat(module, ".weight"), {4, 4}};
    parameter.linear = LinearWeight::kOutIn;
    t5.units[0].parameters.push_back(parameter);
  }
  const auto modules = [&](const LoraConfig& config) {
    const auto layout = LayOutAdapters(t5, config);
    std::vector<std::string> names;
    for (const AdaptedWeight* weight : layout->weights()) names.push_back(weight->module);
    return names;
  };
  LoraConfig config;
  config.target_pattern = R"(.*Attention\.q)";
  config.layers = {0};
  EXPECT_THAT(modules(config), ElementsAre("decoder.block.0.layer.1.EncDecAttention.q"));
  config.layers_pattern = {"blocks", "(b)lock"};
  EXPECT_THAT(modules(config), ElementsAre("decoder.block.0.layer.1.EncDecAttention.q"));
  config.layers_pattern = {"layer"};
  EXPECT_THAT(modules(config), ElementsAre("decoder.block.1.layer.0.SelfAttention.q"));
  // What is named whole is in whatever layer.
  config.target_pattern = "";
  config.targets = {"q"};
  EXPECT_THAT(modules(config), ElementsAre("decoder.block.1.layer.0.SelfAttention.q", "q"));
}

// RoBERTa's classifier is of two layers, of which PEFT's "all-linear" names one as a target.
TEST(AdapterLayout, TargetsInsideModulesToSaveArePassedOver) {
  LoraConfig config = Targets({"q_proj", "up_proj"});
  config.modules_to_save = {"mlp"};
  EXPECT_EQ(Modules(config).size(), 12u);
  const AdapterLayout layout = *LayOutAdapters(Llama(), config);
  EXPECT_EQ(layout.trained.count("model.layers.0.mlp.up_proj.weight"), 1u);
  EXPECT_THAT(layout.targets(), ElementsAre("q_proj"));
}

TEST(AdapterLayout, ShapesFollowTheMatrix) {
  LoraConfig config = Targets({"down_proj"});
  config.r = 3;
  config.alpha = 6;
  const AdapterLayout layout = *LayOutAdapters(Llama(), config);
  const AdaptedWeight& weight = *layout.weights().front();
  EXPECT_EQ(weight.in, 40);
  EXPECT_EQ(weight.out, 24);
  EXPECT_EQ(weight.scale, 2);
  EXPECT_EQ(layout.parameters(), 12 * 3 * (40 + 24));
  const UnitDescription unit = WithAdapters(layout, Llama()).units[1];
  const auto& a = unit.parameters[unit.parameters.size() - 2];
  EXPECT_EQ(a.name, "model.layers.0.mlp.down_proj.lora_A.weight");
  EXPECT_THAT(a.shape, ElementsAre(3, 40));
  EXPECT_THAT(unit.parameters.back().shape, ElementsAre(24, 3));
  EXPECT_THAT(layout.targets(), ElementsAre("down_proj"));
}

// As adapter_config.json has them: names, which mean what is trained whole as well.
TEST(AdapterLayout, AllLinearLayersSpelledOutAreTheSame) {
  LoraConfig config = Targets({kAllLinear});
  config.modules_to_save = {"11.mlp"};
  const AdapterLayout layout = *LayOutAdapters(Llama(), config);
  EXPECT_THAT(layout.excluded(),
              ElementsAre("model.layers.11.mlp.down_proj", "model.layers.11.mlp.gate_proj",
                          "model.layers.11.mlp.up_proj"));
  const std::vector<std::string> modules = Modules(config);
  config.targets = layout.targets();
  EXPECT_EQ(Modules(config), modules);
  config.excluded = layout.excluded();
  EXPECT_EQ(Modules(config), modules);
}

TEST(AdapterLayout, AConv1dIsTheOtherWayRound) {
  const ModelConfig gpt2 = SmallGpt2Config(32, 16, 24, 40, 1, 4);
  const AdapterLayout layout = *LayOutAdapters(gpt2.shape.model, Targets({"c_fc"}));
  EXPECT_EQ(layout.weights()[0]->form, LinearWeight::kInOut);
  EXPECT_EQ(layout.weights()[0]->in, 24);
  EXPECT_EQ(layout.weights()[0]->out, 40);
}

TEST(AdapterLayout, AConvolutionsAdapterReadsTheSameWindow) {
  ResNetConfig resnet;
  resnet.classifier.labels = {"cat", "dog"};
  const ModelShape shape = ShapeOf(resnet);
  const auto layout = LayOutAdapters(shape.model, Targets({"convolution"}));
  ASSERT_TRUE(layout.ok()) << layout.status();
  const AdaptedWeight& first = *layout->weights()[0];
  EXPECT_EQ(first.module, "resnet.embedder.embedder.convolution");
  EXPECT_THAT(first.shape_a(), ElementsAre(8, 3, 7, 7));
  EXPECT_THAT(first.shape_b(), ElementsAre(64, 8, 1, 1));
  EXPECT_EQ(first.in, 3 * 7 * 7);
  // PEFT's word for all means matrices.
  EXPECT_THAT(LayOutAdapters(shape.model, Targets({kAllLinear}))->targets(), ElementsAre("1"));
}

TEST(AdapterLayout, WhatIsTrainedBesides) {
  LoraConfig config = Targets({"up_proj"});
  EXPECT_THAT(LayOutAdapters(Llama(), config)->trained, IsEmpty());
  config.modules_to_save = {"lm_head", "11.self_attn"};
  EXPECT_EQ(LayOutAdapters(Llama(), config)->trained.size(), 1u + 4);
  config.modules_to_save = {"norm"};  // as PEFT means it, and so of every layer's
  EXPECT_EQ(LayOutAdapters(Llama(), config)->trained.size(), 12u * 2 + 1);
  config.modules_to_save = {"mlp"};
  EXPECT_THAT(Refusal(config), HasSubstr("leave no layer to be adapted"));
  // PEFT, too, compares whole parts of names here, and ends of names in what it saves.
  config.modules_to_save = {"p_proj"};
  EXPECT_THAT(Refusal(config), HasSubstr("both a target of LoRA and a module to save"));
  config.modules_to_save = {"lm_headed"};
  EXPECT_THAT(Refusal(config), HasSubstr("lm_headed is not in the model"));
  config.modules_to_save = {};
  config.bias = LoraConfig::Bias::kLoraOnly;
  EXPECT_EQ(LayOutAdapters(Llama(), config)->trained.size(), 12u);
  config.bias = LoraConfig::Bias::kAll;
  EXPECT_EQ(LayOutAdapters(Llama(), config)->trained.size(), 36u);
}

// PEFT passes over names of other families' layers.
TEST(AdapterLayout, AnAdapterThatIsThereMayNameMore) {
  LoraConfig config = Targets({"query", "q_proj", "lm_head_of_another"});
  EXPECT_THAT(Refusal(config), HasSubstr("query is no layer of the model"));
  config.targets_may_be_missing = true;
  EXPECT_EQ(Modules(config).size(), 12u);
  config.targets = {"query", "c_attn"};
  EXPECT_THAT(Refusal(config), HasSubstr("targets query, c_attn leave no layer to be adapted; the "
                                         "model's linear layers are "));
}

TEST(AdapterLayout, RefusalsSayWhatThereIs) {
  EXPECT_THAT(Refusal(LoraConfig()), HasSubstr("no modules are named"));
  EXPECT_THAT(Refusal(Targets({"wq"})), HasSubstr("down_proj, gate_proj, k_proj"));
  EXPECT_THAT(Refusal(Targets({"lm_head"})), HasSubstr("--modules-to-save lm_head"));
  LoraConfig config = Targets({"q_proj"});
  config.r = 0;
  EXPECT_THAT(Refusal(config), HasSubstr("rank is 0"));
  config = {};
  config.target_pattern = "(";
  EXPECT_THAT(Refusal(config), HasSubstr("regular expression"));
}

TEST(AdapterLayout, PeftsNamesOfParameters) {
  EXPECT_EQ(PeftName("a.b.lora_A.weight", true), "base_model.model.a.b.lora_A.weight");
  EXPECT_EQ(PeftName("a.b.bias", true), "base_model.model.a.b.base_layer.bias");
  EXPECT_EQ(PeftName("a.b.bias", false), "base_model.model.a.b.bias");
  for (const char* name : {"a.b.lora_A.weight", "a.b.bias"}) {
    EXPECT_EQ(ParameterOfPeftName(PeftName(name, true)), name);
  }
  EXPECT_EQ(ParameterOfPeftName("base_model.model.head.modules_to_save.out.bias"), "head.out.bias");
  EXPECT_EQ(ParameterOfPeftName("base_model.model.head.original_module.out.bias"), "");
}

// With bias "all" PEFT's file has those of a module to save three times.
TEST(AdapterFile, TheCopyOfASavedModuleIsTheParameter) {
  const ScratchDirectory scratch;
  ModelDescription model;
  model.units = {
      {"unit", {{"m.q.weight", {2, 2}}, {"m.head.weight", {1, 2}}, {"m.head.bias", {1}}}}};
  model.units[0].parameters[0].linear = LinearWeight::kOutIn;
  LoraConfig config = Targets({"q"});
  config.r = 1;
  config.bias = LoraConfig::Bias::kAll;
  config.modules_to_save = {"head"};
  const json written = AdapterConfigJson(config, "base", false);
  ASSERT_TRUE(WriteFileAtomically(scratch / "adapter_config.json", written.dump()).ok());
  const std::string prefix = "base_model.model.m.";
  const auto write = [&](const std::vector<std::string>& heads) {
    std::vector<ExportTensor> tensors = {{prefix + "q.lora_A.weight", DType::kFloat32, {1, 2}},
                                         {prefix + "q.lora_B.weight", DType::kFloat32, {2, 1}},
                                         {prefix + "head.weight", DType::kFloat32, {1, 2}}};
    for (const std::string& name : heads) tensors.push_back({prefix + name, DType::kFloat32, {1}});
    auto writer = *SafetensorsWriter::Create(scratch / kAdapterWeightsName, tensors);
    float value = 0;
    for (const ExportTensor& tensor : tensors) {
      for (uint64_t i = 0; i < tensor.elements(); ++i) {
        ASSERT_TRUE(writer->AppendFp32(&value, 1).ok());
      }
      value += 1;
    }
    ASSERT_TRUE(writer->Finish().ok());
  };
  const AdapterLayout layout = *LayOutAdapters(model, config);
  for (const std::vector<std::string>& heads : std::vector<std::vector<std::string>>{
           {"head.modules_to_save.bias", "head.bias", "head.original_module.bias"},
           {"head.original_module.bias", "head.bias", "head.modules_to_save.bias"}}) {
    write(heads);
    const auto adapter = *AdapterFile::Open(scratch / "");
    const absl::Status status = adapter->Match(model, layout, {});
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(adapter->parameters(), testing::Contains("m.head.bias"));
    float bias = 0;
    ASSERT_TRUE(adapter->Read("m.head.bias", 0, 1, &bias).ok());
    EXPECT_EQ(bias, heads[0] == "head.modules_to_save.bias" ? 3 : 5);
  }
  write({"head.bias", "other.bias"});
  EXPECT_THAT((*AdapterFile::Open(scratch / ""))->Match(model, layout, {}).message(),
              HasSubstr("other.bias"));
}

}  // namespace
}  // namespace spillway
