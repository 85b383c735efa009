#include "engine/families/gpt2_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace spillway {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<Gpt2Config> Parse(const std::string& text) {
  absl::StatusOr<JsonDocument> document = ParseStrictJson(text, "config.json");
  if (!document.ok()) return document.status();
  return ParseGpt2Config(*document);
}

// The message of the refusal of one key set to one value.
std::string Refusal(const std::string& key, const std::string& value) {
  const auto config = Parse("{\"model_type\": \"gpt2\",\n\"" + key + "\": " + value + "}");
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << key << " " << value;
  return std::string(config.status().message());
}

TEST(Gpt2Config, DefaultsAreTransformers) {
  const Gpt2Config config = *Parse(R"({"model_type": "gpt2"})");
  EXPECT_EQ(config.vocab_size, 50257);
  EXPECT_EQ(config.n_positions, 1024);
  EXPECT_EQ(config.n_embd, 768);
  EXPECT_EQ(config.n_layer, 12);
  EXPECT_EQ(config.n_head, 12);
  EXPECT_EQ(config.n_inner, 3072);
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  EXPECT_EQ(config.attn_pdrop, 0.1);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.parameter_count(), 124439808);
}

TEST(Gpt2Config, ReadsEveryKey) {
  const Gpt2Config config = *Parse(R"({
      "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 99,
      "n_positions": 64, "n_ctx": 64, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_inner": 100,
      "activation_function": "quick_gelu", "resid_pdrop": 0.2, "embd_pdrop": 0, "attn_pdrop": 0.3,
      "layer_norm_epsilon": 1e-6, "initializer_range": 0.01, "scale_attn_weights": false,
      "scale_attn_by_inverse_layer_idx": true, "reorder_and_upcast_attn": true,
      "tie_word_embeddings": false, "torch_dtype": "float32", "summary_type": "cls_index",
      "task_specific_params": {"text-generation": {"max_length": 50}}})");
  EXPECT_EQ(config.n_inner, 100);
  EXPECT_EQ(config.activation, Activation::kQuickGelu);
  EXPECT_EQ(config.resid_pdrop, 0.2);
  EXPECT_EQ(config.embd_pdrop, 0);
  EXPECT_EQ(config.attn_pdrop, 0.3);
  EXPECT_EQ(config.layer_norm_epsilon, 1e-6);
  EXPECT_EQ(config.initializer_range, 0.01);
  EXPECT_FALSE(config.scale_attn_weights);
  EXPECT_TRUE(config.scale_attn_by_inverse_layer_idx);
  EXPECT_TRUE(config.reorder_and_upcast_attn);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_THAT(config.warnings, testing::IsEmpty());
}

TEST(Gpt2Config, TakesTransformersOtherNames) {
  const Gpt2Config config = *Parse(R"({"model_type": "gpt2", "hidden_size": 24, "n_inner": null,
      "num_attention_heads": 2, "num_hidden_layers": 5, "max_position_embeddings": 7})");
  EXPECT_EQ(config.n_embd, 24);
  EXPECT_EQ(config.n_head, 2);
  EXPECT_EQ(config.n_layer, 5);
  EXPECT_EQ(config.n_positions, 7);
  EXPECT_EQ(config.n_inner, 96);
  const auto contradiction = Parse(R"({"model_type": "gpt2", "hidden_size": 24, "n_embd": 48})");
  EXPECT_THAT(contradiction.status().message(),
              AllOf(HasSubstr("n_embd"), HasSubstr("hidden_size")));
}

TEST(Gpt2Config, RefusesBadValuesByKeyValueAndLine) {
  for (const char* key : {"vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner"}) {
    for (const char* value : {"0", "-1", "1.5", "\"12\"", "true", "9000000000000000000",
                              "18446744073709551615", "[]"}) {
      EXPECT_THAT(Refusal(key, value),
                  AllOf(HasSubstr("config.json:2"), HasSubstr(key), HasSubstr(value)));
    }
  }
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
    for (const char* value : {"-0.1", "1", "1.5", "\"0.1\"", "null"}) {
      EXPECT_THAT(Refusal(key, value), AllOf(HasSubstr(key), HasSubstr(value)));
    }
  }
  EXPECT_THAT(Refusal("layer_norm_epsilon", "0"), HasSubstr("above 0"));
  EXPECT_THAT(Refusal("initializer_range", "-1"), HasSubstr("initializer_range"));
  EXPECT_THAT(Refusal("tie_word_embeddings", "1"), HasSubstr("true or false"));
  EXPECT_THAT(Refusal("n_head", "7"), HasSubstr("n_embd 768 is not divisible by n_head 7"));
}

TEST(Gpt2Config, RefusesWhatWouldChangeTheLogits) {
  EXPECT_THAT(Refusal("add_cross_attention", "true"), HasSubstr("cross-attention"));
  EXPECT_THAT(Refusal("is_encoder_decoder", "true"), HasSubstr("is_encoder_decoder"));
  EXPECT_THAT(Refusal("per_layer_config", R"({"0": {"n_head": 2}})"), HasSubstr("layers differ"));
  EXPECT_THAT(Refusal("pruned_heads", R"({"0": [1]})"), HasSubstr("pruned heads"));
  EXPECT_THAT(Refusal("quantization_config", R"({"bits": 4})"), HasSubstr("quantized"));
  EXPECT_THAT(Refusal("activation_function", "\"prelu\""),
              AllOf(HasSubstr("prelu"), HasSubstr("gelu_new, ")));
  EXPECT_THAT(Refusal("architectures", "[\"GPT2ForSequenceClassification\"]"),
              AllOf(HasSubstr("GPT2ForSequenceClassification"), HasSubstr("GPT2LMHeadModel")));
  EXPECT_TRUE(Parse(R"({"model_type": "gpt2", "add_cross_attention": false, "pruned_heads": {},
                        "is_encoder_decoder": false, "architectures": null})")
                  .ok());
}

TEST(Gpt2Config, AnotherFamilyIsNamedWithTheSupportedOnes) {
  for (const char* text : {R"({"model_type": "llama"})", "{}", R"({"model_type": 3})"}) {
    EXPECT_THAT(Parse(text).status().message(),
                AllOf(HasSubstr("model_type is"), HasSubstr("supported model types: \"gpt2\"")));
  }
  EXPECT_EQ(Parse("[]").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Gpt2Config, WarnsOfUnknownKeys) {
  const Gpt2Config config =
      *Parse(R"({"model_type": "gpt2", "n_hed": 3, "n_ctx": 2048, "id2label": {}})");
  EXPECT_THAT(config.warnings, ElementsAre(HasSubstr("n_ctx 2048"), HasSubstr("n_hed")));
}

TEST(Gpt2Config, AMissingFileIsNotFound) {
  EXPECT_EQ(ReadGpt2Config("/nowhere").status().code(), absl::StatusCode::kNotFound);
}

TEST(Gpt2Config, ExportKeepsTheUsersKeys) {
  const Gpt2Config config = *Parse(R"({"model_type": "gpt2", "architectures": ["GPT2Model"],
      "n_embd": 24, "n_head": 2, "my_note": "kept", "torch_dtype": "float16"})");
  const json out = Gpt2ConfigJson(config, DType::kBFloat16);
  EXPECT_EQ(out["my_note"], "kept");
  EXPECT_EQ(out["n_embd"], 24);
  EXPECT_EQ(out["architectures"], json::array({"GPT2LMHeadModel"}));
  EXPECT_EQ(out["torch_dtype"], "bfloat16");
  EXPECT_EQ(out["dtype"], "bfloat16");
}

TEST(Gpt2Config, ExportNamesNoTokenBeyondTheVocabulary) {
  const char* small = R"({"model_type": "gpt2", "vocab_size": 80, "bos_token_id": 3})";
  const json out = Gpt2ConfigJson(*Parse(small), DType::kFloat32);
  EXPECT_EQ(out["bos_token_id"], 3);
  EXPECT_TRUE(out["eos_token_id"].is_null());
  const json whole = Gpt2ConfigJson(*Parse(R"({"model_type": "gpt2"})"), DType::kFloat32);
  EXPECT_FALSE(whole.contains("eos_token_id"));
}

TEST(Gpt2Config, ExportOfAConfigMadeInCodeReadsBack) {
  Gpt2Config config;
  config.vocab_size = 77;
  config.activation = Activation::kMish;
  config.scale_attn_weights = false;
  const json out = Gpt2ConfigJson(config, DType::kFloat32);
  const Gpt2Config again = *Parse(out.dump());
  EXPECT_EQ(again.vocab_size, 77);
  EXPECT_EQ(again.activation, Activation::kMish);
  EXPECT_FALSE(again.scale_attn_weights);
  EXPECT_THAT(again.warnings, testing::IsEmpty());
}

}  // namespace
}  // namespace spillway
