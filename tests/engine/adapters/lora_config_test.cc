#include "engine/adapters/lora_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/adapters/adapter_choice.h"
#include "io/file_system.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const json kPlain = {{"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 6}, {"target_modules", {"q"}}};

absl::StatusOr<LoraConfig> ParseLora(const json& keys) {
  return ParseAdapterConfig(keys.dump(2), "adapter_config.json");
}

json With(json keys, const json& more) {
  keys.update(more);
  return keys;
}

ModelShape ShapeOfType(const char* model_type) {
  ModelShape shape;
  shape.model_type = model_type;
  return shape;
}

TEST(LoraConfig, PeftsKeysAreRead) {
  const auto config = ParseLora(With(kPlain, {{"lora_dropout", 0.25},
                                              {"use_rslora", true},
                                              {"bias", "lora_only"},
                                              {"init_lora_weights", "gaussian"},
                                              {"exclude_modules", {"lm_head"}},
                                              {"modules_to_save", {"norm"}},
                                              {"layers_to_transform", {0, 3}},
                                              {"layers_pattern", "layers"},
                                              {"rank_pattern", {{"q", 2}}},
                                              {"alpha_pattern", {{"v.*", 1.5}}},
                                              {"loftq_config", json::object()},
                                              {"use_dora", false},
                                              {"revision", nullptr}}));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->r, 4);
  EXPECT_EQ(config->alpha, 6);
  EXPECT_EQ(config->dropout, 0.25);
  EXPECT_TRUE(config->rank_stabilized);
  EXPECT_EQ(config->bias, LoraConfig::Bias::kLoraOnly);
  EXPECT_EQ(config->init, LoraConfig::InitA::kGaussian);
  EXPECT_THAT(config->targets, ElementsAre("q"));
  EXPECT_THAT(config->excluded, ElementsAre("lm_head"));
  EXPECT_THAT(config->modules_to_save, ElementsAre("norm"));
  EXPECT_THAT(config->layers, ElementsAre(0, 3));
  EXPECT_THAT(config->layers_pattern, ElementsAre("layers"));
  // What is written of it is read as the same.
  const auto again = ParseLora(AdapterConfigJson(*config, "/models/base", true));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *config);
}

TEST(LoraConfig, RanksAndScalesGoByTheEndsOfNames) {
  const auto config = ParseLora(
      With(kPlain, {{"rank_pattern", {{"mlp.up", 2}, {"0.q", 3}}}, {"alpha_pattern", {{"q", 9}}}}));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->RankOf("model.layers.1.mlp.up"), 2);
  EXPECT_EQ(config->RankOf("model.layers.10.q"), 4);
  EXPECT_EQ(config->RankOf("model.layers.0.q"), 3);
  EXPECT_EQ(config->ScaleOf("model.layers.0.q"), 3);
  EXPECT_EQ(config->ScaleOf("model.layers.0.v"), 1.5);
  LoraConfig stabilized = *config;
  stabilized.rank_stabilized = true;
  EXPECT_EQ(stabilized.ScaleOf("model.layers.0.v"), 3);
  EXPECT_DOUBLE_EQ(stabilized.ScaleOf("mlp.up"), 6 / std::sqrt(2.0));
}

// As PEFT tries them, also where what it saves has its keys in the order of the alphabet.
TEST(LoraConfig, TheFirstPatternOfTheFileCounts) {
  const auto config = ParseAdapterConfig(
      R"({"peft_type": "LORA", "r": 4, "lora_alpha": 4, "target_modules": ["q"],
          "rank_pattern": {"b.q": 2, "a.b.q": 3}, "alpha_pattern": {"q": 8, "b.q": 16}})",
      "adapter_config.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->RankOf("a.b.q"), 2);
  EXPECT_EQ(config->ScaleOf("a.b.q"), 4);
  const json written = AdapterConfigJson(*config, "base", false);
  EXPECT_EQ(written["rank_pattern"], json({{"(?#0)b.q", 2}, {"(?#1)a.b.q", 3}}));
  const auto again = ParseLora(written);
  EXPECT_EQ(again->RankOf("a.b.q"), 2);
  EXPECT_EQ(again->ScaleOf("a.b.q"), 4);
  EXPECT_EQ(AdapterConfigJson(*again, "base", false), written);
}

TEST(LoraConfig, ATextIsAPatternButForAllLinear) {
  EXPECT_EQ(ParseLora(With(kPlain, {{"target_modules", ".*proj"}}))->target_pattern, ".*proj");
  EXPECT_THAT(ParseLora(With(kPlain, {{"target_modules", "all-linear"}}))->targets,
              ElementsAre(kAllLinear));
}

TEST(LoraConfig, WhatIsRefusedIsNamedWithItsLine) {
  const std::pair<json, const char*> cases[] = {
      {{{"peft_type", "IA3"}}, "peft_type is \"IA3\""},
      {{{"task_type", "FEATURE_EXTRACTION"}}, "task_type is \"FEATURE_EXTRACTION\""},
      {{{"r", 0}}, "r is 0"},
      {{{"r", 2.5}}, "r is 2.5"},
      {{{"lora_alpha", -1}}, "lora_alpha is -1"},
      {{{"lora_dropout", 1.5}}, "lora_dropout is 1.5"},
      {{{"bias", "most"}}, "bias is \"most\""},
      {{{"init_lora_weights", "pissa"}}, "init_lora_weights is \"pissa\""},
      {{{"target_modules", {1}}}, "target_modules is"},
      {{{"target_modules", json::array()}}, "target_modules is []"},
      {{{"layers_to_transform", "all"}}, "layers_to_transform is"},
      {{{"rank_pattern", {{"q", "2"}}}}, "rank_pattern is"},
      {{{"use_dora", true}}, "use_dora is true"},
      {{{"of_next_year", {{"a", 1}}}}, "of_next_year is"},
  };
  for (const auto& [change, words] : cases) {
    const auto config = ParseLora(With(kPlain, change));
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << words;
    EXPECT_THAT(config.status().message(), HasSubstr(words));
    EXPECT_THAT(config.status().message(), HasSubstr("adapter_config.json:"));
  }
  EXPECT_FALSE(ParseAdapterConfig("[]", "f").ok());
  EXPECT_FALSE(ParseAdapterConfig("{", "f").ok());
}

TEST(LoraConfig, WithoutTargetsTheFamilysAreTaken) {
  AdapterChoice choice;
  EXPECT_TRUE(choice.none());
  choice.lora = LoraConfig();
  EXPECT_THAT(ResolveLora(choice, ShapeOfType("gpt2"))->targets, ElementsAre("c_attn"));
  EXPECT_THAT(ResolveLora(choice, ShapeOfType("qwen3"))->targets, ElementsAre("q_proj", "v_proj"));
  EXPECT_THAT(ResolveLora(choice, ShapeOfType("cnn")).status().message(),
              HasSubstr("--lora-targets"));
  const ScratchDirectory dir;
  choice = {.lora = {}, .config_file = dir / "none.json", .directory = ""};
  EXPECT_THAT(ResolveLora(choice, ShapeOfType("gpt2")).status().message(), HasSubstr("none.json"));
  ASSERT_TRUE(WriteFileAtomically(FileSystem::Real(), dir / "a.json", kPlain.dump()).ok());
  choice.config_file = dir / "a.json";
  EXPECT_THAT(ResolveLora(choice, ShapeOfType("gpt2"))->targets, ElementsAre("q"));
  const auto write = [&](const json& changed) {
    ASSERT_TRUE(WriteFileAtomically(dir / "a.json", With(kPlain, changed).dump()).ok());
  };
  write({{"target_modules", nullptr}});
  EXPECT_THAT(ResolveLora(choice, ShapeOfType("gpt2"))->targets, ElementsAre("c_attn"));
  write({{"target_modules", ".*q"}, {"layers_to_transform", {1}}});
  EXPECT_THAT(ResolveLora(choice, ShapeOfType("gpt2")).status().message(),
              HasSubstr("let the expression name the layers"));
}

TEST(LoraConfig, AnAdapterThatIsThereSaysWhetherItHasAClassifier) {
  const ScratchDirectory dir;
  ASSERT_TRUE(WriteFileAtomically(dir / "adapter_config.json", kPlain.dump()).ok());
  for (const bool sees : {false, true}) {
    ModelShape shape = ShapeOfType("bert");
    shape.classifier = "classifier";
    shape.sees = sees;
    EXPECT_THAT(ResolveLora({.directory = dir / ""}, shape)->modules_to_save, testing::IsEmpty());
  }
}

TEST(LoraConfig, OfAModelThatAnswersQuestionsItsHeadIsTrainedWhole) {
  ModelShape bert = ShapeOfType("bert");
  bert.classifier = "qa_outputs";
  bert.finds_spans = true;
  AdapterChoice choice;
  choice.lora.emplace();
  const LoraConfig lora = *ResolveLora(choice, bert);
  EXPECT_THAT(lora.modules_to_save, ElementsAre("qa_outputs"));
  EXPECT_EQ(AdapterConfigJson(lora, "base", false)["task_type"], "QUESTION_ANS");
  choice.lora->task_type = "SEQ_CLS";
  EXPECT_THAT(ResolveLora(choice, bert).status().message(), HasSubstr("QUESTION_ANS"));
}

TEST(LoraConfig, OfAClassifierItsHeadIsTrainedWhole) {
  ModelShape bert = ShapeOfType("bert");
  bert.classifier = "classifier";
  AdapterChoice choice;
  choice.lora.emplace();
  const LoraConfig lora = *ResolveLora(choice, bert);
  EXPECT_THAT(lora.targets, ElementsAre("query", "value"));
  EXPECT_THAT(lora.modules_to_save, ElementsAre("classifier"));
  EXPECT_EQ(AdapterConfigJson(lora, "base", false)["task_type"], "SEQ_CLS");
  // As PEFT adds it to what is named; and what is drawn anew, of which nobody else has the values.
  choice.lora->modules_to_save = {"pooler"};
  EXPECT_THAT(ResolveLora(choice, bert)->modules_to_save, ElementsAre("pooler", "classifier"));
  choice.new_modules = {"bert.pooler.dense", "classifier.dense", "other"};
  EXPECT_THAT(ResolveLora(choice, bert)->modules_to_save,
              ElementsAre("pooler", "classifier", "other"));
  choice.lora->modules_to_save = {"classifier.dense"};
  EXPECT_THAT(ResolveLora(choice, bert)->modules_to_save,
              ElementsAre("classifier.dense", "classifier", "other", "bert.pooler.dense"));
  choice.new_modules = {"other.dense", "other.norm", "other"};
  EXPECT_THAT(ResolveLora(choice, bert)->modules_to_save,
              ElementsAre("classifier.dense", "classifier", "other"))
      << "one in another is not said";
  choice.new_modules = {};
  choice.lora->task_type = "CAUSAL_LM";
  EXPECT_THAT(ResolveLora(choice, bert).status().message(), HasSubstr("SEQ_CLS"));

  // As PEFT writes it, which knows every model's head by one list of names.
  const auto read = ParseAdapterConfig(
      R"({"peft_type": "LORA", "task_type": "SEQ_CLS", "target_modules": ["query"],
          "modules_to_save": ["classifier", "score"]})",
      "adapter_config.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(ResolveLora({.lora = *read}, bert)->modules_to_save, ElementsAre("classifier"));
  ModelShape llama = ShapeOfType("llama");
  llama.classifier = "score";
  EXPECT_THAT(ResolveLora({.lora = *read}, llama)->modules_to_save, ElementsAre("score"));
}

}  // namespace
}  // namespace spillway
