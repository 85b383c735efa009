#include "engine/adapters/adapter_choice.h"

#include <cstring>

#include "engine/adapters/adapter_export.h"
#include "engine/adapters/adapter_file.h"
#include "engine/adapters/tied_logits.h"
#include "engine/families/model_config.h"
#include "engine/weights/safetensors_writer.h"
#include "io/base/status.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;
using Names = std::vector<std::string>;

constexpr int kRows = 7, kWidth = 8;

ModelConfig ChoiceConfig(const std::string& text) {
  const auto document = ParseStrictJson(text, "config.json");
  EXPECT_TRUE(document.ok()) << document.status();
  auto config = ParseModelConfig(*document);
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

// Small models of every family with tied logits.
ModelConfig Tied(const std::string& family) {
  const std::string llama =
      R"(", "vocab_size": 7, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
      "num_key_value_heads": 2, "intermediate_size": 8, "tie_word_embeddings": true})";
  const std::string encoder = R"(", "vocab_size": 7, "hidden_size": 8, "num_hidden_layers": 1,
      "num_attention_heads": 2, "intermediate_size": 8, "architectures": [")";
  if (family == "gpt2") {
    return ChoiceConfig(R"({"model_type": "gpt2", "vocab_size": 7, "n_embd": 8, "n_layer": 1,
                      "n_head": 2})");
  }
  if (family == "opt") {
    return ChoiceConfig(R"({"model_type": "opt", "vocab_size": 7, "hidden_size": 8, "ffn_dim": 8,
        "num_hidden_layers": 1, "num_attention_heads": 2, "word_embed_proj_dim": 8})");
  }
  if (family == "t5") {
    return ChoiceConfig(R"({"model_type": "t5", "vocab_size": 7, "d_model": 8, "d_kv": 4, "d_ff": 8,
        "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0})");
  }
  if (family == "bart") {
    return ChoiceConfig(
        R"({"model_type": "bart", "vocab_size": 7, "d_model": 8, "encoder_layers": 1,
        "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "decoder_start_token_id": 2, "pad_token_id": 1})");
  }
  if (family == "bert") {
    return ChoiceConfig(R"({"model_type": "bert)" + encoder + "BertForMaskedLM\"]}");
  }
  return ChoiceConfig(R"({"model_type": ")" + family + llama);
}

absl::StatusOr<LoraConfig> ResolveChoice(const ModelConfig& config, Names saved) {
  LoraConfig lora;
  lora.targets = {kAllLinear};
  lora.modules_to_save = std::move(saved);
  return ResolveLora({.lora = lora}, config.shape);
}

TEST(ResolveLora, TiedLogitsAreTrainedWithTheEmbedding) {
  const struct {
    const char* family;
    Names given, kept;
  } cases[] = {
      {"llama", {"embed_tokens", "lm_head"}, {"embed_tokens"}},
      {"qwen3", {"lm_head", "norm", "model.embed_tokens"}, {"norm", "model.embed_tokens"}},
      {"gpt2", {"wte", "lm_head"}, {"wte"}},
      {"opt", {"embed_tokens", "lm_head"}, {"embed_tokens"}},
      {"t5", {"shared", "lm_head"}, {"shared"}},
      {"t5", {"shared", "lm_head", "decoder.embed_tokens", "encoder.embed_tokens"}, {"shared"}},
      {"bart", {"embed_tokens", "shared"}, {"shared"}},
      {"bart", {"lm_head", "shared"}, {"shared"}},
      {"bert", {"word_embeddings", "cls.predictions.decoder"}, {"word_embeddings"}},
      // A head that has parameters of its own stays.
      {"bert", {"word_embeddings", "cls"}, {"word_embeddings", "cls"}},
      {"bert", {"cls"}, {"cls"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.family);
    const auto lora = ResolveChoice(Tied(c.family), c.given);
    ASSERT_TRUE(lora.ok()) << lora.status();
    EXPECT_EQ(lora->modules_to_save, c.kept);
  }
}

TEST(ResolveLora, TiedLogitsAloneAreRefusedWithTheModuleThatTrainsThem) {
  for (const auto& [family, module] : std::map<std::string, std::string>{
           {"llama", "model.embed_tokens"}, {"gpt2", "transformer.wte"}, {"t5", "shared"}}) {
    ExpectError(ResolveChoice(Tied(family), {"lm_head"}).status(), StatusCode::kInvalidArgument,
                {"the module to save lm_head", "ties to " + module + ": name that module"});
  }
}

TEST(LoraConfig, PatternsThatDecideNothingAreFound) {
  LoraConfig lora;
  lora.rank_pattern = {{"q_proj", 2}, {"qq_proj", 3}, {"layers.1.*", 4}};
  lora.alpha_pattern = {{"^v_proj", 5}, {"self_attn\\.v_proj", 6}, {"v_proj", 7}};
  const Names modules = {"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj"};
  EXPECT_EQ(lora.UnusedPatterns(modules),
            (Names{"rank_pattern's qq_proj", "rank_pattern's layers.1.*", "alpha_pattern's ^v_proj",
                   "alpha_pattern's v_proj"}));
  EXPECT_EQ(LoraConfig().UnusedPatterns(modules), Names());
}

// An adapter's directory, as PEFT writes it, with matrices that hold one value each.
class TiedLogits : public testing::Test {
 protected:
  void Write(const std::string& saved, const std::map<std::string, float>& matrices,
             const std::string& more = "") {
    WriteFile(scratch_ / kAdapterConfigName,
              R"({"peft_type": "LORA", "target_modules": "all-linear", "modules_to_save": )" +
                  saved + more + "}");
    std::vector<ExportTensor> tensors;
    for (const auto& [name, value] : matrices) {
      tensors.push_back({"base_model.model." + name, DType::kFloat32, {kRows, kWidth}});
    }
    auto writer = *SafetensorsWriter::Create(scratch_ / kAdapterWeightsName, tensors, {});
    for (const auto& [name, value] : matrices) {
      const std::vector<float> values(kRows * kWidth, value);
      ASSERT_TRUE(writer->AppendFp32(values.data(), values.size()).ok());
    }
    ASSERT_TRUE(writer->Finish().ok());
  }

  // Whether the model stays tied.
  absl::StatusOr<bool> StaysTied(const std::string& family) {
    ModelConfig config = Tied(family);
    RETURN_IF_ERROR(UntieForAdapter(scratch_.path(), scratch_ / "none", &config));
    EXPECT_EQ(config.untied, !config.transformer.tied);
    EXPECT_EQ(config.original.contains("tie_word_embeddings") &&
                  config.original["tie_word_embeddings"] == false,
              config.untied);
    return !config.untied;
  }

  const ScratchDirectory scratch_;
};

TEST_F(TiedLogits, ACopyOfTheEmbeddingUntiesThem) {
  Write(R"(["embed_tokens"])", {{"model.embed_tokens.weight", 1}});
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    EXPECT_EQ(*StaysTied(family), false) << family;
  }
  Write(R"(["embed_tokens", "lm_head"])",
        {{"model.decoder.embed_tokens.weight", 1}, {"lm_head.weight", 2}});
  EXPECT_EQ(*StaysTied("opt"), false);
  // Of this embedding PEFT's ensure_weight_tying knows nothing.
  Write(R"(["wte"])", {{"transformer.wte.weight", 1}}, R"(, "ensure_weight_tying": true)");
  EXPECT_EQ(*StaysTied("gpt2"), false);
}

TEST_F(TiedLogits, EqualCopiesStayTied) {
  Write(R"(["embed_tokens", "lm_head"])",
        {{"model.embed_tokens.weight", 1}, {"lm_head.weight", 1}});
  EXPECT_EQ(*StaysTied("llama"), true);
  // As PEFT writes it with ensure_weight_tying.
  Write(R"(["embed_tokens", "model.embed_tokens"])",
        {{"model.embed_tokens.weight", 1}, {"lm_head.weight", 1}},
        R"(, "ensure_weight_tying": true)");
  EXPECT_EQ(*StaysTied("qwen3"), true);
  Write(R"(["shared"])", {{"shared.weight", 1},
                          {"encoder.embed_tokens.weight", 1},
                          {"decoder.embed_tokens.weight", 1},
                          {"lm_head.weight", 1}});
  EXPECT_EQ(*StaysTied("t5"), true);
  Write(R"(["norm"])", {});
  EXPECT_EQ(*StaysTied("llama"), true);
}

TEST_F(TiedLogits, OfTwoStacksTheyCannotBeUntied) {
  const std::vector<std::string> says = {"PEFT has trained", "--modules-to-save "};
  Write(R"(["shared"])", {{"shared.weight", 1}});
  ExpectError(StaysTied("t5").status(), StatusCode::kInvalidArgument, says);
  Write(R"(["shared", "lm_head"])", {{"model.shared.weight", 1}, {"lm_head.weight", 1}});
  ExpectError(StaysTied("bart").status(), StatusCode::kInvalidArgument, says);
  Write(R"(["shared"])", {{"shared.weight", 1},
                          {"encoder.embed_tokens.weight", 1},
                          {"decoder.embed_tokens.weight", 2},
                          {"lm_head.weight", 1}});
  ExpectError(StaysTied("t5").status(), StatusCode::kInvalidArgument, says);
}

}  // namespace
}  // namespace spillway
