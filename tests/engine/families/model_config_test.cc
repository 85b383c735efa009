#include "engine/families/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/families/model_task.h"
#include "io/file_system.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

absl::StatusOr<ModelConfig> Parse(const std::string& text) {
  absl::StatusOr<JsonDocument> document = ParseStrictJson(text, "config.json");
  if (!document.ok()) return document.status();
  return ParseModelConfig(*document);
}

// The message of the refusal of one key set to one value.
std::string Refusal(const std::string& key, const std::string& value) {
  const auto config = Parse("{\"model_type\": \"gpt2\",\n\"" + key + "\": " + value + "}");
  if (config.ok() && !config->unsupported.empty()) return config->unsupported.front();
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << key << " " << value;
  return std::string(config.status().message());
}

TEST(ModelConfigKeys, AMissingModelTypeIsGuessedFromOtherKeys) {
  const struct {
    const char *config, *type;
  } cases[] = {
      {R"({"hidden_size": 8, "type_vocab_size": 2, "intermediate_size": 8})", "bert"},
      {R"({"architectures": ["GPT2LMHeadModel"]})", "gpt2"},
      {R"({"architectures": ["T5ForConditionalGeneration"], "d_model": 8})", "t5"},
      {R"({"architectures": ["DistilBertForMaskedLM"]})", "distilbert"},
      {R"({"architectures": ["LlamaForCausalLM"]})", "llama"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(std::string(Parse(c.config).status().message()),
                AllOf(HasSubstr("model_type is missing"),
                      HasSubstr(absl::StrCat("add \"model_type\": \"", c.type, "\""))))
        << c.config;
  }
  // An ALBERT has BERT's keys, and nothing tells what the last one is.
  for (const char* config : {R"({"type_vocab_size": 2, "intermediate_size": 8,
                                 "embedding_size": 4})",
                             R"({"hidden_size": 8})"}) {
    EXPECT_THAT(std::string(Parse(config).status().message()),
                AllOf(HasSubstr("model_type is missing; supported"), Not(HasSubstr("add "))));
  }
}

TEST(ModelConfigKeys, QuantisedWeightsAreNamedByWhoHasQuantisedThem) {
  for (const char* key : {"quantization", "quantization_config"}) {
    EXPECT_THAT(Refusal(key, R"({"group_size": 64, "bits": 4})"),
                AllOf(HasSubstr("config.json:2"), HasSubstr("MLX"), HasSubstr("bits 4")));
  }
  EXPECT_THAT(Refusal("quantization_config", R"({"quant_method": "gptq", "bits": 4,
                                                 "group_size": 128})"),
              AllOf(HasSubstr("gptq"), Not(HasSubstr("MLX"))));
  EXPECT_THAT(Refusal("quantization_config", R"({"load_in_4bit": true})"), HasSubstr("fp4"));
  EXPECT_THAT(Refusal("quantization_config", R"({"bits": 4})"), HasSubstr("quant_method null"));
  // Files of older transformers name no method.
  const struct {
    const char* quantisation;
    PackedFormat format;
  } cases[] = {
      {R"({"load_in_8bit": true})", PackedFormat::kInt8},
      {R"({"load_in_8bit": true, "load_in_4bit": false, "llm_int8_threshold": 6.0})",
       PackedFormat::kInt8},
      {R"({"load_in_4bit": true, "bnb_4bit_quant_type": "nf4"})", PackedFormat::kNf4},
      {R"({"quant_method": "bitsandbytes", "load_in_8bit": true})", PackedFormat::kInt8},
  };
  for (const auto& c : cases) {
    const auto config = Parse(
        absl::StrCat(R"({"model_type": "gpt2", "quantization_config": )", c.quantisation, "}"));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_TRUE(config->unsupported.empty()) << config->unsupported.front();
    EXPECT_EQ(QuantisedAs(config->original), c.format) << c.quantisation;
  }
}

TEST(Gpt2Config, DefaultsAreTransformers) {
  const ModelConfig config = *Parse(R"({"model_type": "gpt2"})");
  EXPECT_EQ(config.transformer.vocabulary, 50257);
  EXPECT_EQ(config.transformer.positions, 1024);
  EXPECT_EQ(config.transformer.hidden, 768);
  EXPECT_EQ(config.transformer.layers, 12);
  EXPECT_EQ(config.transformer.heads, 12);
  EXPECT_EQ(config.transformer.intermediate, 3072);
  EXPECT_EQ(config.transformer.activation, Activation::kGeluTanh);
  EXPECT_EQ(config.transformer.attention_dropout, 0.1);
  EXPECT_TRUE(config.transformer.tied);
  EXPECT_EQ(config.shape.model.parameter_count(), 124439808);
}

TEST(Gpt2Config, ReadsEveryKey) {
  const ModelConfig config = *Parse(R"({
      "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 99,
      "n_positions": 64, "n_ctx": 64, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_inner": 100,
      "activation_function": "quick_gelu", "resid_pdrop": 0.2, "embd_pdrop": 0, "attn_pdrop": 0.3,
      "layer_norm_epsilon": 1e-6, "initializer_range": 0.01, "scale_attn_weights": false,
      "scale_attn_by_inverse_layer_idx": true, "reorder_and_upcast_attn": true,
      "tie_word_embeddings": false, "torch_dtype": "float32", "summary_type": "cls_index",
      "task_specific_params": {"text-generation": {"max_length": 50}}})");
  EXPECT_EQ(config.transformer.intermediate, 100);
  EXPECT_EQ(config.transformer.activation, Activation::kQuickGelu);
  EXPECT_EQ(config.transformer.residual_dropout, 0.2);
  EXPECT_EQ(config.transformer.embedding_dropout, 0);
  EXPECT_EQ(config.transformer.attention_dropout, 0.3);
  EXPECT_EQ(config.transformer.norm_epsilon, 1e-6);
  EXPECT_EQ(config.transformer.init_std, 0.01);
  EXPECT_EQ(config.transformer.score_scale, 1);
  EXPECT_TRUE(config.transformer.scale_by_layer);
  EXPECT_TRUE(config.transformer.fp32_scores);
  EXPECT_FALSE(config.transformer.tied);
  EXPECT_THAT(config.warnings, testing::IsEmpty());
}

TEST(Gpt2Config, TakesTransformersOtherNames) {
  const ModelConfig config = *Parse(R"({"model_type": "gpt2", "hidden_size": 24, "n_inner": null,
      "num_attention_heads": 2, "num_hidden_layers": 5, "max_position_embeddings": 7})");
  EXPECT_EQ(config.transformer.hidden, 24);
  EXPECT_EQ(config.transformer.heads, 2);
  EXPECT_EQ(config.transformer.layers, 5);
  EXPECT_EQ(config.transformer.positions, 7);
  EXPECT_EQ(config.transformer.intermediate, 96);
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
    for (const char* value : {"-0.1", "1", "1.5", "\"0.1\""}) {
      EXPECT_THAT(Refusal(key, value), AllOf(HasSubstr(key), HasSubstr(value)));
    }
  }
  EXPECT_THAT(Refusal("layer_norm_epsilon", "0"), HasSubstr("above 0"));
  EXPECT_THAT(Refusal("initializer_range", "-1"), HasSubstr("initializer_range"));
  EXPECT_THAT(Refusal("tie_word_embeddings", "1"), HasSubstr("true or false"));
  EXPECT_THAT(Refusal("n_head", "7"), HasSubstr("the hidden size 768 is not divisible by 7 heads"));
}

TEST(Gpt2Config, RefusesWhatWouldChangeTheLogits) {
  EXPECT_THAT(Refusal("add_cross_attention", "true"), HasSubstr("cross-attention"));
  EXPECT_THAT(Refusal("is_encoder_decoder", "true"), HasSubstr("is_encoder_decoder"));
  EXPECT_THAT(Refusal("per_layer_config", R"({"0": {"n_head": 2}})"), HasSubstr("layers differ"));
  EXPECT_THAT(Refusal("pruned_heads", R"({"0": [1]})"), HasSubstr("pruned heads"));
  EXPECT_THAT(Refusal("quantization_config", R"({"bits": 4})"), HasSubstr("quantised"));
  EXPECT_THAT(Refusal("activation_function", "\"prelu\""),
              AllOf(HasSubstr("prelu"), HasSubstr("gelu_new, ")));
  EXPECT_THAT(Refusal("architectures", "[\"GPT2ForQuestionAnswering\"]"),
              AllOf(HasSubstr("GPT2ForQuestionAnswering"), HasSubstr("GPT2LMHeadModel")));
  EXPECT_TRUE(Parse(R"({"model_type": "gpt2", "add_cross_attention": false, "pruned_heads": {},
                        "is_encoder_decoder": false, "architectures": null})")
                  .ok());
}

TEST(Gpt2Config, AnotherFamilyIsNamedWithTheSupportedOnes) {
  for (const char* text : {R"({"model_type": "unheard-of"})", "{}", R"({"model_type": 3})"}) {
    EXPECT_THAT(Parse(text).status().message(),
                AllOf(HasSubstr("model_type is"),
                      HasSubstr("supported model types: \"bart\", \"bert\", \"blenderbot\", ")));
  }
  EXPECT_EQ(Parse("[]").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Gpt2Config, WarnsOfUnknownKeys) {
  const ModelConfig config =
      *Parse(R"({"model_type": "gpt2", "n_hed": 3, "n_ctx": 2048, "id2label": {}})");
  EXPECT_THAT(config.warnings, ElementsAre(HasSubstr("n_ctx 2048"), HasSubstr("n_hed")));
}

// A small config of the family with more keys.
absl::StatusOr<ModelConfig> Small(const std::string& type, const std::string& more) {
  return Parse("{\"model_type\": \"" + type + R"(", "hidden_size": 64, "vocab_size": 50,
      "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
      "max_position_embeddings": 32)" +
               more + "}");
}

// transformers 5 writes one config for both.
TEST(ReadModelConfig, WhetherAnUnscaledT5IsTiedIsSeenInItsWeights) {
  const ScratchDirectory dir;
  const auto write = [&](const char* name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(FileSystem::Real(), dir / name, text).ok());
  };
  const auto read = [&](const std::string& tensor) {
    const std::string header = "{\"" + tensor + "\":{}}";
    const uint64_t size = header.size();
    write("config.json", R"({"model_type": "t5", "scale_decoder_outputs": false,
        "tie_word_embeddings": true, "decoder_start_token_id": 0})");
    write("model.safetensors",
          std::string(reinterpret_cast<const char*>(&size), sizeof size) + header);
    return *ReadModelConfig(dir.path());
  };
  const ModelConfig tied = read("shared.weight");
  EXPECT_TRUE(tied.transformer.tied);
  EXPECT_EQ(tied.transformer.logits_scale, 1);
  EXPECT_FALSE(read("lm_head.weight").transformer.tied);
  // A run, beside whose config there are no weights, goes on with what was seen.
  ASSERT_TRUE(RemoveIfThere(FileSystem::Real(), dir / "model.safetensors").ok());
  write("config.json", ExportedConfig(tied).dump());
  EXPECT_TRUE(ReadModelConfig(dir.path())->transformer.tied);
}

// Google's say that they are not, and transformers 5 writes that all are.
TEST(ReadModelConfig, WhetherAnMt5IsTiedIsSeenInItsWeights) {
  const ScratchDirectory dir;
  const auto read = [&](const std::string& tensor, const char* said) {
    const std::string header = "{\"" + tensor + "\":{}}";
    const uint64_t size = header.size();
    const auto write = [&](const char* name, const std::string& text) {
      EXPECT_TRUE(WriteFileAtomically(FileSystem::Real(), dir / name, text).ok());
    };
    write("config.json",
          absl::StrCat(R"({"model_type": "mt5", "decoder_start_token_id": 0)", said, "}"));
    if (!tensor.empty()) {
      write("model.safetensors",
            std::string(reinterpret_cast<const char*>(&size), sizeof size) + header);
    }
    return ReadModelConfig(dir.path())->transformer;
  };
  const char* const kTied = R"(, "tie_word_embeddings": true)";
  const char* const kUntied = R"(, "tie_word_embeddings": false)";
  EXPECT_TRUE(read("", "").tied);
  EXPECT_FALSE(read("", kUntied).tied);
  for (const char* said : {"", kTied, kUntied}) {
    EXPECT_FALSE(read("lm_head.weight", said).tied) << said;
    EXPECT_TRUE(read("shared.weight", said).tied) << said;
    EXPECT_EQ(read("shared.weight", said).logits_scale, 1) << said;
  }
}

// --task says what a config's architectures leave open, or name otherwise.
TEST(ModelTaskFlag, TakesThePlaceOfArchitectures) {
  const struct {
    const char *type, *architectures;
    ModelTask task;
    const char* becomes;  // "": stays as it is
    bool other_head;
  } cases[] = {
      {"llama", R"(["LlamaForSequenceClassification"])", ModelTask::kCausalLm, "LlamaForCausalLM",
       true},
      {"llama", R"(["LLaMAForCausalLM"])", ModelTask::kCausalLm, "", false},
      {"llama", R"(["LlamaModel"])", ModelTask::kCausalLm, "", false},
      {"gpt_neox", R"(["GPTNeoXForTokenClassification"])", ModelTask::kCausalLm,
       "GPTNeoXForCausalLM", true},
      {"gpt2", R"(["GPT2DoubleHeadsModel"])", ModelTask::kCausalLm, "GPT2LMHeadModel", true},
      {"opt", R"(["OPTForQuestionAnswering", "OPTModel"])", ModelTask::kCausalLm, "OPTForCausalLM",
       true},
      {"qwen2", R"([])", ModelTask::kCausalLm, "", false},
      {"qwen2", R"([])", ModelTask::kClassify, "Qwen2ForSequenceClassification", true},
      {"qwen3", R"(["Qwen3ForCausalLM"])", ModelTask::kClassify, "Qwen3ForSequenceClassification",
       true},
      {"gpt2", R"(["GPT2ForSequenceClassification"])", ModelTask::kClassify, "", false},
      {"gpt_neox", R"(["GPTNeoXModel"])", ModelTask::kClassify, "GPTNeoXForSequenceClassification",
       true},
      {"mistral", R"(["MistralForSequenceClassification"])", ModelTask::kCausalLm,
       "MistralForCausalLM", true},
      {"bert", R"(["BertForMaskedLM"])", ModelTask::kQuestionAnswering, "BertForQuestionAnswering",
       true},
      {"distilbert", R"(["DistilBertForQuestionAnswering"])", ModelTask::kQuestionAnswering, "",
       false},
      {"data2vec-text", R"(["Data2VecTextModel"])", ModelTask::kQuestionAnswering,
       "Data2VecTextForQuestionAnswering", true},
      {"phi3", R"(["Phi3ForTokenClassification"])", ModelTask::kCausalLm, "Phi3ForCausalLM", true},
      {"t5", R"(["T5EncoderModel"])", ModelTask::kSeq2Seq, "T5ForConditionalGeneration", true},
      {"mt5", R"(["MT5ForQuestionAnswering"])", ModelTask::kSeq2Seq, "MT5ForConditionalGeneration",
       true},
      {"whisper", R"(["WhisperForAudioClassification"])", ModelTask::kTranscribe,
       "WhisperForConditionalGeneration", true},
      {"bert", R"(["BertForPreTraining"])", ModelTask::kMaskedLm, "BertForMaskedLM", true},
      {"bert", R"(["BertForTokenClassification"])", ModelTask::kClassify, "", false},
      {"camembert", R"(["CamembertModel"])", ModelTask::kClassify,
       "CamembertForSequenceClassification", true},
      {"resnet", R"(["ResNetBackbone"])", ModelTask::kClassifyImage, "ResNetForImageClassification",
       true},
  };
  for (const auto& c : cases) {
    const std::string text = absl::StrCat(
        R"({"model_type": ")", c.type, R"(", "architectures": )", c.architectures,
        R"(, "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_heads": 2, "decoder_start_token_id": 0, "num_key_value_heads": 2,
            "encoder_attention_heads": 2, "decoder_attention_heads": 2})");
    const JsonDocument document = *ParseStrictJson(text, "config.json");
    const auto config = ParseModelConfig(document, "", c.task);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_THAT(config->unsupported, testing::IsEmpty()) << text;
    EXPECT_EQ(config->other_head, c.other_head) << text;
    const json expected =
        *c.becomes == '\0' ? document.value["architectures"] : json::array({c.becomes});
    EXPECT_EQ(config->original["architectures"], expected) << text;
    if (!c.other_head) continue;
    // Without the flag the message names it.
    const auto without = ParseModelConfig(document);
    if (!without.ok() || without->unsupported.empty()) continue;
    EXPECT_THAT(without->unsupported,
                testing::Contains(HasSubstr("--task " + ModelTaskName(c.task))));
  }
}

TEST(ClassifierOfDecoders, HasTheScoresOfTheLastToken) {
  const auto parse = [](const std::string& type, const std::string& stem, const char* more) {
    return *Parse(absl::StrCat(R"({"model_type": ")", type,
                               R"(", "vocab_size": 50, "hidden_size": 16,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
        "architectures": [")",
                               stem, R"(ForSequenceClassification"], "tie_word_embeddings": true,
        "id2label": {"0": "bad", "1": "good", "2": "none"})",
                               more, "}"));
  };
  for (const auto& [type, stem] : {std::pair("llama", "Llama"), std::pair("qwen2", "Qwen2"),
                                   std::pair("qwen3", "Qwen3"), std::pair("mistral", "Mistral"),
                                   std::pair("gpt2", "GPT2"), std::pair("gpt_neox", "GPTNeoX")}) {
    SCOPED_TRACE(type);
    const ModelConfig config = parse(type, stem, R"(, "pad_token_id": 7)");
    EXPECT_THAT(config.unsupported, testing::IsEmpty());
    EXPECT_EQ(config.task(), ModelTask::kClassify);
    EXPECT_TRUE(config.transformer.classifier->of_last_token);
    EXPECT_EQ(config.transformer.classifier->padding_token, 7);
    EXPECT_EQ(config.transformer.classifier->labels.size(), 3u);
    const TensorNames names = TensorNamesOf(config);
    EXPECT_EQ(names.shapes.at("score.weight"), (std::vector<uint64_t>{3, 16}));
    EXPECT_EQ(names.shapes.count("score.bias"), 0u);
    EXPECT_EQ(names.shapes.count("lm_head.weight") + names.shapes.count("embed_out.weight"), 0u);
    EXPECT_EQ(names.tied_to, "");
    EXPECT_THAT(names.new_head, testing::ElementsAre("score."));
    EXPECT_THAT(names.other_heads, testing::Contains("lm_head."));
    EXPECT_EQ(config.shape.classifier, "score");
    EXPECT_FALSE(config.shape.has_logits());
    EXPECT_EQ(ExportedConfig(config)["architectures"][0],
              absl::StrCat(stem, "ForSequenceClassification"));
    EXPECT_FALSE(parse(type, stem, R"(, "pad_token_id": null)")
                     .transformer.classifier->padding_token.has_value());
  }
}

TEST(Phi3Config, HasFusedMatricesAndRopeWithFactorsForLongTexts) {
  const auto parse = [](const std::string& more) {
    return Parse(absl::StrCat(R"({"model_type": "phi3", "hidden_size": 16, "vocab_size": 50,
        "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64)",
                              more, "}"));
  };
  const auto phi3 = parse(R"(, "sliding_window": 7, "resid_pdrop": 0.25, "embd_pdrop": 0.5,
      "original_max_position_embeddings": 16, "rope_scaling": {"type": "su",
      "short_factor": [1, 1.5], "long_factor": [2, 3]})");
  ASSERT_TRUE(phi3.ok()) << phi3.status();
  EXPECT_THAT(phi3->warnings, testing::IsEmpty());
  const TransformerConfig& c = phi3->transformer;
  EXPECT_EQ(c.residual_dropout, 0.25);
  EXPECT_EQ(c.embedding_dropout, 0) << "transformers' class does not apply it";
  EXPECT_EQ(c.windows.front(), 7);
  EXPECT_EQ(c.rotary.scaling, RotaryConfig::Scaling::kLong);
  EXPECT_EQ(c.rotary.positions, 16);
  EXPECT_NEAR(c.rotary.attention_factor, std::sqrt(1 + std::log(4.0) / std::log(16.0)), 1e-15);
  const auto& shapes = TensorNamesOf(*phi3).shapes;
  const auto head = static_cast<uint64_t>(c.head_size);
  EXPECT_EQ(shapes.at("model.layers.0.self_attn.qkv_proj.weight"),
            (std::vector<uint64_t>{8 * head, static_cast<uint64_t>(c.hidden)}));
  EXPECT_EQ(shapes.at("model.layers.0.mlp.gate_up_proj.weight")[0],
            2 * static_cast<uint64_t>(c.intermediate));
  const auto refused = [&](const char* scaling) {
    return std::string(parse(absl::StrCat(R"(, "rope_scaling": )", scaling)).status().message());
  };
  EXPECT_THAT(refused(R"({"type": "longrope", "short_factor": [1, 1]})"),
              HasSubstr("needs a long_factor"));
  EXPECT_THAT(refused(R"({"type": "longrope", "short_factor": [1], "long_factor": [1, 1]})"),
              HasSubstr("longrope has 1 factors for 2 pairs"));
  EXPECT_THAT(refused(R"({"type": "longrope", "short_factor": [0, 1], "long_factor": [1, 1]})"),
              HasSubstr("short_factor is [0,1]; expected"));
}

TEST(RotaryKeys, AnOddNumberOfTurnedElementsKeepsItsLengthsOfWaves) {
  // transformers: waves of base^(2 i / 5), and six elements of the twenty are turned.
  EXPECT_EQ(Parse(R"({"model_type": "gpt_neox", "hidden_size": 80, "num_attention_heads": 4,
      "vocab_size": 50, "num_hidden_layers": 1, "rotary_pct": 0.25})")
                ->transformer.rotary.size,
            5);
  const auto odd = Small("llama", R"(, "head_dim": 5)");
  EXPECT_THAT(odd.status().message(), HasSubstr("even number of turned elements a head, not 5"));
}

TEST(RotaryKeys, GptNeoxsOwnNamesCount) {
  const std::string alone = R"(, "rope_theta": 500, "partial_rotary_factor": 0.5)";
  EXPECT_THAT(Small("gpt_neox", alone)->unsupported,
              ElementsAre(HasSubstr("write rotary_emb_base"), HasSubstr("write rotary_pct")));
  const std::string own = R"(, "rotary_emb_base": 500, "rotary_pct": 0.5)";
  EXPECT_THAT(Small("gpt_neox", alone + own)->unsupported, testing::IsEmpty());
  // As transformers 5 writes such a file again: the object counts.
  const auto again = Small("gpt_neox", alone + R"(, "rope_parameters": {"rope_type": "default",
      "rope_theta": 10000, "partial_rotary_factor": 0.25})");
  EXPECT_THAT(again->unsupported, testing::IsEmpty());
  EXPECT_EQ(again->transformer.rotary.base, 10000);
}

TEST(RotaryKeys, TheOriginalPositionsBesideTheObjectCountMore) {
  const std::string inner = R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16})";
  EXPECT_EQ(Small("llama", inner)->transformer.rotary.positions, 16);
  const auto both = Small("llama", inner + R"(, "original_max_position_embeddings": 8)");
  EXPECT_EQ(both->transformer.rotary.positions, 8);
  EXPECT_THAT(both->warnings, testing::IsEmpty());
}

TEST(RotaryKeys, KeysInsideTheObjectAreWatched) {
  const auto misspelt =
      Small("llama", R"(, "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "beta_fats": 3})");
  EXPECT_THAT(misspelt->warnings, ElementsAre(HasSubstr("beta_fats")));
  EXPECT_THAT(
      Small("llama", R"(, "rope_scaling": {"rope_type": 5, "factor": 2})").status().message(),
      HasSubstr("rope_type is 5; expected a text"));
  // An empty one says nothing.
  const auto empty = Small("llama", R"(, "rope_scaling": {},
      "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0})");
  EXPECT_EQ(empty->transformer.rotary.factor, 2);
  EXPECT_EQ(empty->transformer.rotary.base, 500);
}

// tests/torch/decoder_golden_test.cc holds the first of each to the numbers of transformers.
TEST(LlamaConfig, OtherSpellingsAreTheSameModel) {
  const std::string heads = R"(, "num_key_value_heads": 2)";
  TransformerConfig mistral = Small("mistral", heads + R"(, "sliding_window": null)")->transformer;
  mistral.model_type = "llama";
  EXPECT_TRUE(mistral == Small("llama", heads)->transformer);
  EXPECT_FALSE(mistral == Small("llama", heads + R"(, "rms_norm_eps": 1e-3)")->transformer);
  const auto scaled = [&](const std::string& spelling) {
    return Small("llama", heads + spelling)->transformer;
  };
  const auto linear = scaled(R"(, "rope_scaling": {"rope_type": "linear", "factor": 4.0})");
  EXPECT_EQ(linear.rotary.factor, 4);
  EXPECT_TRUE(linear == scaled(R"(, "rope_scaling": {"type": "linear", "factor": 4.0})"));
  EXPECT_TRUE(linear == scaled(R"(, "rope_parameters": {"rope_type": "linear", "factor": 4.0})"));
}

TEST(LlamaConfig, WindowsAndHeadsDefaultAsTransformersHasThem) {
  const std::string slides = R"(, "use_sliding_window": true, "max_window_layers": 0,
      "num_key_value_heads": 2)";
  EXPECT_THAT(Small("qwen2", slides + R"(, "sliding_window": 7)")->transformer.windows,
              ElementsAre(7, 7, 7));
  EXPECT_THAT(Small("qwen2", slides + R"(, "sliding_window": null)")->transformer.windows,
              ElementsAre(0, 0, 0));
  EXPECT_EQ(Small("mistral", R"(, "num_key_value_heads": null)")->transformer.key_value_heads, 4);
  for (const char* type : {"qwen2", "qwen3"}) {
    EXPECT_THAT(Small(type, "").status().message(),
                HasSubstr("num_key_value_heads 32 does not divide 4 heads"));
    EXPECT_EQ(Small(type, R"(, "num_key_value_heads": null)")->transformer.key_value_heads, 4);
  }
}

TEST(OptConfig, ItsPaddingTokenIsOneUnlessTheFileSaysNone) {
  const std::string sizes = R"({"model_type": "opt", "vocab_size": 9, "hidden_size": 8,
      "num_hidden_layers": 1, "num_attention_heads": 2)";
  EXPECT_EQ(Parse(sizes + "}")->transformer.padding_token, 1);
  EXPECT_EQ(Parse(sizes + R"(, "pad_token_id": 4})")->transformer.padding_token, 4);
  EXPECT_EQ(Parse(sizes + R"(, "pad_token_id": -2})")->transformer.padding_token, 7);
  EXPECT_EQ(Parse(sizes + R"(, "pad_token_id": null})")->transformer.padding_token, std::nullopt);
}

TEST(Gpt2Config, AMissingFileIsNotFound) {
  EXPECT_EQ(ReadModelConfig("/nowhere").status().code(), absl::StatusCode::kNotFound);
}

TEST(Gpt2Config, ExportKeepsTheUsersKeys) {
  const ModelConfig config = *Parse(R"({"model_type": "gpt2", "architectures": ["GPT2Model"],
      "n_embd": 24, "n_head": 2, "my_note": "kept", "torch_dtype": "float16"})");
  const json out = ExportedConfig(config);
  EXPECT_EQ(out["my_note"], "kept");
  EXPECT_EQ(out["n_embd"], 24);
  EXPECT_EQ(out["architectures"], json::array({"GPT2Model"}));
  EXPECT_EQ(out["torch_dtype"], "float16");
  EXPECT_FALSE(out.contains("dtype"));
  const ModelConfig unsaid = *Parse(R"({"model_type": "gpt2"})");
  EXPECT_EQ(ExportedConfig(unsaid)["architectures"], json::array({"GPT2LMHeadModel"}));
}

TEST(Gpt2Config, ExportNamesNoTokenBeyondTheVocabulary) {
  const char* small = R"({"model_type": "gpt2", "vocab_size": 80, "bos_token_id": 3})";
  const json out = ExportedConfig(*Parse(small));
  EXPECT_EQ(out["bos_token_id"], 3);
  EXPECT_TRUE(out["eos_token_id"].is_null());
  const json whole = ExportedConfig(*Parse(R"({"model_type": "gpt2"})"));
  EXPECT_FALSE(whole.contains("eos_token_id"));
}

}  // namespace
}  // namespace spillway
