#include "engine/families/read_model_shape.h"

#include <fstream>
#include <map>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::HasSubstr;

absl::StatusOr<ModelShape> ShapeOf(const json& config) {
  const auto document = ParseStrictJson(config.dump(2), "config.json");
  if (!document.ok()) return document.status();
  return ReadModelShape(*document);
}

json Golden() {
  std::ifstream in(SPILLWAY_SOURCE_DIR "/tests/golden/model_shapes.json");
  return json::parse(in);
}

const json kAny = {{"model_type", "unheard-of"},
                   {"hidden_size", 256},
                   {"num_hidden_layers", 3},
                   {"num_attention_heads", 4},
                   {"vocab_size", 1000}};

TEST(ModelShape, KnownFamiliesHaveTransformersParametersByNameAndShape) {
  const json golden = Golden();
  ASSERT_GE(golden.size(), 11u);
  for (const auto& [name, expected] : golden.items()) {
    SCOPED_TRACE(name);
    const auto shape = ShapeOf(expected["config"]);
    ASSERT_TRUE(shape.ok()) << shape.status();
    EXPECT_TRUE(shape->exact);
    // What can be estimated, not trained, says so.
    EXPECT_EQ(shape->notes.empty(), name != "gemma-2b");
    EXPECT_EQ(shape->model.parameter_count(), expected["parameters"].get<uint64_t>());
    EXPECT_EQ(shape->base_parameters, expected["base_parameters"].get<uint64_t>());
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const UnitDescription& unit : shape->model.units) {
      for (const ParameterDescription& p : unit.parameters) shapes[p.name] = p.shape;
    }
    EXPECT_EQ(shapes.size(), expected["tensors"].get<size_t>());
    for (const auto& [tensor, dimensions] : expected["shapes"].items()) {
      EXPECT_EQ(json(shapes[tensor]), dimensions) << tensor;
    }
    // Every unit but a tied head's has its own parameters; the head is last.
    EXPECT_EQ(static_cast<int64_t>(shape->model.units.size()), shape->layers + 2);
    EXPECT_EQ(!shape->model.units.back().borrows.empty(), shape->tied);
  }
}

TEST(ModelShape, FiguresThatPeopleKnow) {
  const json golden = Golden();
  const auto bert = ShapeOf(golden["bert-base-cased"]["config"]);
  ASSERT_TRUE(bert.ok());
  EXPECT_EQ(bert->model.parameter_count(), 108310272u);
  EXPECT_NEAR(bert->model.parameter_count() * 4 / double(1 << 20), 413.17, 0.005);
  const auto llama = ShapeOf(golden["Meta-Llama-3-8B"]["config"]);
  ASSERT_TRUE(llama.ok());
  EXPECT_EQ(llama->model.parameter_count(), 8030261248u);
  // accelerate counts AutoModel, and printed 28.21 GB while that kept a causal mask of
  // positions x positions elements, which it counts like a weight (docs/ESTIMATE.md).
  const double gib = double(1 << 30);
  EXPECT_NEAR(llama->base_parameters * 4 / gib, 27.96, 0.005);
  const double with_mask = llama->base_parameters + double(llama->positions) * llama->positions;
  EXPECT_NEAR(with_mask * 4 / gib, 28.21, 0.005);
}

TEST(ModelShape, AnyConfigWithTheFourSizesIsAnApproximationThatSaysSo) {
  const auto shape = ShapeOf(kAny);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_FALSE(shape->exact);
  // Embedding and logits, 3 layers of 4 h^2 + 8 h^2 + 2 h, and the last norm.
  EXPECT_EQ(shape->model.parameter_count(),
            2u * 1000 * 256 + 3u * (12 * 256 * 256 + 2 * 256) + 256);
  ASSERT_FALSE(shape->notes.empty());
  EXPECT_THAT(shape->notes.back(), HasSubstr("unheard-of"));
  EXPECT_THAT(shape->notes.back(), HasSubstr("approximation"));

  // The same under other families' names.
  const auto other =
      ShapeOf({{"d_model", 256}, {"n_layers", 3}, {"n_heads", 4}, {"n_vocab", 1000}});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->model.parameter_count(), shape->model.parameter_count());
}

TEST(ModelShape, ATaskGivesABareModelItsHead) {
  json config = kAny;
  config["model_type"] = "bert";
  const auto document = *ParseStrictJson(config.dump(), "config.json");
  const ModelShape classifies = *ReadModelShape(document, ModelTask::kClassify);
  EXPECT_EQ(classifies.classifier, "classifier");
  EXPECT_TRUE(classifies.notes.empty());
  EXPECT_TRUE(ReadModelShape(document, ModelTask::kMaskedLm)->masked);
  EXPECT_EQ(ReadModelShape(document)->classifier, "");
}

TEST(ModelShape, ApproximationsFollowWhatTheConfigSays) {
  json config = kAny;
  config["num_key_value_heads"] = 2;
  config["hidden_act"] = "silu";
  config["intermediate_size"] = 500;
  config["tie_word_embeddings"] = true;
  config["num_local_experts"] = 8;
  config["num_experts_per_tok"] = 2;
  const auto shape = ShapeOf(config);
  ASSERT_TRUE(shape.ok()) << shape.status();
  const uint64_t layer = 2 * 256 * 256 + 2 * 256 * 128 + 8 * 256 + 8 * 3 * 256 * 500 + 2 * 256;
  EXPECT_EQ(shape->model.parameter_count(), 1000u * 256 + 3 * layer + 256);
  EXPECT_EQ(shape->experts_used, 2);
}

TEST(ModelShape, TheLanguageModelOfAModelOfImagesIsInTextConfig) {
  const auto shape = ShapeOf({{"model_type", "seeing"}, {"text_config", kAny}});
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->hidden, 256);
  EXPECT_THAT(shape->notes.front(), HasSubstr("text_config"));
  json bad = kAny;
  bad.erase("vocab_size");
  EXPECT_THAT(ShapeOf({{"text_config", bad}}).status().message(), HasSubstr("vocab_size"));
}

TEST(ModelShape, BadConfigsAreRefusedByTheKey) {
  const auto refused = [](const char* key, const json& value, const char* word) {
    json config = kAny;
    config[key] = value;
    if (value.is_null()) config.erase(key);
    const absl::Status status = ShapeOf(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << key << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr(word)) << key << value;
    EXPECT_TRUE(absl::StartsWith(status.message(), "config.json:")) << status;
  };
  for (const char* key :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"}) {
    refused(key, nullptr, key);
    refused(key, "many", key);
    refused(key, 0, key);
    refused(key, -1, key);
    refused(key, 1.5, key);
    refused(key, uint64_t{1} << 63, key);
  }
  refused("num_attention_heads", 7, "not divisible");
  refused("tie_word_embeddings", "yes", "tie_word_embeddings");
  refused("num_hidden_layers", 10001, "10000");
  EXPECT_FALSE(ShapeOf(json::array()).ok());
  // The families that are known take the four sizes as seriously.
  json llama = kAny;
  llama["model_type"] = "llama";
  llama.erase("hidden_size");
  EXPECT_THAT(std::string(ShapeOf(llama).status().message()), HasSubstr("hidden_size"));
}

}  // namespace
}  // namespace spillway
