#include "engine/families/encoder_families.h"

#include <tuple>

#include "engine/families/model_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<ModelConfig> ParseEncoder(const char* type, const char* architecture,
                                         nlohmann::json more) {
  nlohmann::json keys = {{"model_type", type}, {"architectures", {architecture}}};
  if (!more.is_null()) keys.update(more);
  return ParseModelConfig(*ParseStrictJson(keys.dump(1), "config.json"));
}

absl::StatusOr<ModelConfig> ParseBert(const nlohmann::json& more) {
  return ParseEncoder("bert", "BertForSequenceClassification", more);
}

// What is wrong, or not supported.
std::string Objection(const nlohmann::json& more) {
  const auto config = ParseBert(more);
  if (!config.ok()) return std::string(config.status().message());
  return config->unsupported.empty() ? "" : config->unsupported.front();
}

TEST(EncoderConfig, LabelsComeFromTheirNamesOrTheirNumber) {
  EXPECT_THAT(ParseBert({})->transformer.classifier->labels, ElementsAre("LABEL_0", "LABEL_1"));
  EXPECT_THAT(ParseBert({{"num_labels", 3}})->transformer.classifier->labels,
              ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  const ModelConfig named = *ParseBert({{"id2label", {{"1", "b"}, {"0", "a"}}}});
  EXPECT_THAT(named.transformer.classifier->labels, ElementsAre("a", "b"));
  EXPECT_FALSE(named.transformer.classifier->problem);
  const ModelConfig number = *ParseBert({{"id2label", {{"0", "score"}}}});
  EXPECT_EQ(number.transformer.classifier->problem, ClassifierProblem::kRegression);
  const ModelConfig many = *ParseBert({{"problem_type", "multi_label_classification"}});
  EXPECT_EQ(many.transformer.classifier->problem, ClassifierProblem::kMultiLabel);
  EXPECT_EQ(ExportedConfig(many)["problem_type"], "multi_label_classification");
}

// As transformers: id2label counts, whatever else there is.
TEST(EncoderConfig, LabelsThatRepeatOrAreIncompleteAreWarnedOf) {
  using Labels = nlohmann::json;
  const struct {
    Labels keys;
    std::vector<std::string> labels;
    const char* warning;  // "": none
  } cases[] = {
      {{{"id2label", {{"0", "crane"}, {"1", "ox"}, {"2", "crane"}}},
        {"label2id", {{"crane", 2}, {"ox", 1}}}},
       {"crane", "ox", "crane"},
       ""},
      {{{"id2label", {{"0", "crane"}, {"1", "ox"}, {"2", "crane"}}},
        {"label2id", {{"crane", 0}, {"ox", 1}}}},
       {"crane", "ox", "crane"},
       ""},
      {{{"id2label", {{"0", "a"}, {"1", "b"}}}, {"label2id", {{"a", 1}, {"b", 0}}}},
       {"a", "b"},
       "label2id does not say that \"a\" is 0"},
      {{{"id2label", {{"0", "a"}, {"1", "b"}}}, {"label2id", {{"b", 1}}}}, {"a", "b"}, "label2id"},
      {{{"id2label", {{"0", "a"}, {"1", "b"}}}, {"label2id", {{"a", "0"}, {"b", 1}}}},
       {"a", "b"},
       "label2id"},
      {{{"id2label", {{"0", "a"}, {"1", "b"}}}}, {"a", "b"}, ""},
      {{{"id2label", {{"0", "a"}, {"7", "b"}}}}, {"a", "LABEL_1"}, "\"7\" is passed over"},
      {{{"id2label", {{"-1", "a"}, {"1", "b"}}}}, {"LABEL_0", "b"}, "\"-1\" is passed over"},
      {{{"id2label", {{"0", "a"}, {"1", "b"}}}, {"num_labels", 3}},
       {"a", "b"},
       "num_labels is 3; id2label counts"},
      {{{"id2label", {{"0", 5}, {"1", ""}}}}, {"5", ""}, ""},
      {{{"id2label", {"a", "a"}}}, {"a", "a"}, ""},
  };
  for (const auto& c : cases) {
    const auto config = ParseBert(c.keys);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->transformer.classifier->labels, c.labels) << c.keys;
    if (*c.warning == '\0') {
      EXPECT_THAT(config->warnings, IsEmpty()) << c.keys;
    } else {
      EXPECT_THAT(config->warnings, ElementsAre(HasSubstr(c.warning))) << c.keys;
    }
  }
}

TEST(EncoderConfig, RobertaByOtherNamesHasItsTensors) {
  for (const auto& [type, stem, prefix] :
       {std::tuple("xlm-roberta", "XLMRoberta", "roberta."),
        std::tuple("camembert", "Camembert", "roberta."),
        std::tuple("data2vec-text", "Data2VecText", "data2vec_text.")}) {
    const std::string masked = std::string(stem) + "ForMaskedLM";
    const ModelConfig config = *ParseEncoder(type, masked.c_str(), {});
    EXPECT_TRUE(config.transformer.masked);
    EXPECT_TRUE(config.transformer.positions_skip_padding);
    EXPECT_EQ(config.transformer.vocabulary, 30522);
    EXPECT_EQ(config.transformer.names.tokens,
              std::string(prefix) + "embeddings.word_embeddings.weight");
    EXPECT_EQ(TensorNamesOf(config).base_prefix, prefix);
    EXPECT_EQ(ExportedConfig(config)["architectures"][0], masked);
  }
}

TEST(EncoderConfig, WhatContradictsItselfOrIsNotBuiltIsNamed) {
  EXPECT_THAT(Objection({{"id2label", nlohmann::json::object()}}), HasSubstr("id2label"));
  EXPECT_THAT(Objection({{"id2label", {{"zero", "a"}}}}), HasSubstr("id2label"));
  EXPECT_THAT(Objection({{"id2label", {{"0", {"a"}}}}}), HasSubstr("id2label"));
  EXPECT_THAT(Objection({{"problem_type", "ranking"}}), HasSubstr("problem_type"));
  EXPECT_THAT(Objection({{"position_embedding_type", "relative_key"}}), HasSubstr("relative_key"));
  EXPECT_THAT(Objection({{"is_decoder", true}}), HasSubstr("is_decoder"));
  EXPECT_THAT(Objection({{"architectures", {"BertForMultipleChoice"}}}),
              HasSubstr("BertForMaskedLM"));
  EXPECT_THAT(Objection({{"architectures", nullptr}}),
              HasSubstr("train takes it with --task classify or --task question-answering or "
                        "--task masked-lm"));
  const nlohmann::json three = {{"0", "a"}, {"1", "b"}, {"2", "c"}};
  EXPECT_THAT(Objection({{"architectures", {"BertForQuestionAnswering"}}, {"id2label", three}}),
              HasSubstr("the config has 3 labels"));
  EXPECT_EQ(Objection({}), "");
}

TEST(EncoderConfig, DropoutsAreTransformers) {
  const ModelConfig bert = *ParseBert({{"hidden_dropout_prob", 0.3}});
  EXPECT_EQ(bert.transformer.classifier->dropout, 0.3);
  EXPECT_EQ(bert.transformer.classifier->input_dropout, 0);
  EXPECT_EQ(bert.transformer.attention_dropout, 0.1);
  EXPECT_EQ(ParseBert({{"classifier_dropout", 0.0}})->transformer.classifier->dropout, 0);
  const ModelConfig roberta =
      *ParseEncoder("roberta", "RobertaForSequenceClassification", {{"classifier_dropout", 0.2}});
  EXPECT_EQ(roberta.transformer.classifier->input_dropout, 0.2);
  EXPECT_EQ(roberta.transformer.classifier->dropout, 0.2);
  const ModelConfig distilbert =
      *ParseEncoder("distilbert", "DistilBertForSequenceClassification", {{"dropout", 0.05}});
  EXPECT_EQ(distilbert.transformer.classifier->dropout, 0.2);
  EXPECT_EQ(distilbert.transformer.residual_dropout, 0.05);
  EXPECT_FALSE(distilbert.transformer.attention_output_dropout);
}

TEST(EncoderConfig, AnswersHaveTwoScoresOfEachToken) {
  for (const auto& [type, architecture, dropout] :
       {std::tuple("bert", "BertForQuestionAnswering", 0.0),
        std::tuple("roberta", "RobertaForQuestionAnswering", 0.0),
        std::tuple("distilbert", "DistilBertForQuestionAnswering", 0.25)}) {
    SCOPED_TRACE(type);
    const bool distilled = dropout > 0;
    const ModelConfig config = *ParseEncoder(
        type, architecture,
        distilled ? nlohmann::json({{"qa_dropout", 0.25}}) : nlohmann::json::object());
    EXPECT_EQ(config.task(), ModelTask::kQuestionAnswering);
    EXPECT_FALSE(config.transformer.classifier);
    EXPECT_EQ(config.transformer.span_dropout, dropout);
    const TensorNames names = TensorNamesOf(config);
    EXPECT_EQ(names.shapes.at("qa_outputs.weight")[0], 2u);
    EXPECT_EQ(names.shapes.at("qa_outputs.bias")[0], 2u);
    EXPECT_THAT(names.new_head, ElementsAre("qa_outputs."));
    EXPECT_EQ(names.head, "");
    for (const auto& [name, shape] : names.shapes) EXPECT_THAT(name, Not(HasSubstr("pooler")));
    EXPECT_EQ(ExportedConfig(config)["architectures"][0], architecture);
    EXPECT_EQ(config.shape.classifier, "qa_outputs");
    EXPECT_TRUE(config.shape.finds_spans);
    EXPECT_FALSE(config.shape.has_logits());
  }
}

TEST(EncoderConfig, TheArchitectureSaysTheTask) {
  const ModelConfig tokens =
      *ParseEncoder("bert", "BertForTokenClassification", {{"id2label", {{"0", "O"}}}});
  EXPECT_TRUE(tokens.transformer.classifier->of_tokens);
  EXPECT_EQ(tokens.transformer.classifier->problem, ClassifierProblem::kSingleLabel);
  EXPECT_EQ(ExportedConfig(tokens)["architectures"][0], "BertForTokenClassification");
  EXPECT_FALSE(ExportedConfig(tokens).contains("problem_type"));
  EXPECT_EQ(TensorNamesOf(tokens).shapes.count("bert.pooler.dense.weight"), 0u);
  // Their files have heads of the same name that are of other modules.
  EXPECT_THAT(
      TensorNamesOf(*ParseEncoder("roberta", "RobertaForSequenceClassification", {})).other_heads,
      testing::IsSupersetOf({"classifier.weight", "classifier.bias"}));
  const ModelConfig masked = *ParseEncoder("roberta", "RobertaForMaskedLM", {});
  EXPECT_TRUE(masked.transformer.masked);
  EXPECT_FALSE(masked.transformer.classifier);
  EXPECT_EQ(ExportedConfig(masked)["architectures"][0], "RobertaForMaskedLM");
}

TEST(EncoderConfig, ATaskThatIsGivenTakesThePlaceOfTheArchitecture) {
  const auto parse = [](nlohmann::json keys, ModelTask task) {
    keys["model_type"] = keys.value("model_type", "bert");
    return ParseModelConfig(*ParseStrictJson(keys.dump(1), "config.json"), "", task);
  };
  for (const char* name : {"BertForMaskedLM", "BertModel", "BertForPreTraining", ""}) {
    SCOPED_TRACE(name);
    nlohmann::json keys = {{"num_labels", 3}};
    if (*name != '\0') keys["architectures"] = {name};
    const ModelConfig config = *parse(keys, ModelTask::kClassify);
    EXPECT_EQ(config.task(), ModelTask::kClassify);
    EXPECT_THAT(config.unsupported, IsEmpty());
    EXPECT_EQ(config.transformer.classifier->labels.size(), 3u);
    EXPECT_EQ(ExportedConfig(config)["architectures"],
              nlohmann::json::array({"BertForSequenceClassification"}));
    EXPECT_EQ(TensorNamesOf(config).shapes.count("classifier.weight"), 1u);
  }
  const ModelConfig masked = *parse({{"model_type", "roberta"}}, ModelTask::kMaskedLm);
  EXPECT_EQ(masked.task(), ModelTask::kMaskedLm);
  EXPECT_EQ(masked.original["architectures"][0], "RobertaForMaskedLM");

  // What the file is for already stays as it is.
  const nlohmann::json words = {{"architectures", {"BertForTokenClassification"}}};
  EXPECT_TRUE(parse(words, ModelTask::kClassify)->transformer.classifier->of_tokens);
  const nlohmann::json bare = {{"model_type", "resnet"}, {"architectures", {"ResNetModel"}}};
  EXPECT_EQ(parse(bare, ModelTask::kClassifyImage)->original["architectures"][0], "ResNetModel");

  EXPECT_THAT(parse(nlohmann::json::object(), ModelTask::kCausalLm).status().message(),
              HasSubstr("there is no --task causal-lm, but --task classify"));
  EXPECT_THAT(parse({{"model_type", "t5"}}, ModelTask::kTranscribe).status().message(),
              HasSubstr("--task transcribe (or translate), but --task seq2seq"));
  const nlohmann::json gpt2 = {{"model_type", "gpt2"}};
  EXPECT_EQ(parse(gpt2, ModelTask::kMaskedLm).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(parse(gpt2, ModelTask::kCausalLm)->original, gpt2);
}

TEST(EncoderConfig, LogitsOfMaskedTokensAreTiedOrNot) {
  const TensorNames tied = TensorNamesOf(*ParseEncoder("bert", "BertForMaskedLM", {}));
  EXPECT_EQ(tied.tied_to, "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(tied.shapes.count("cls.predictions.bias"), 1u);
  EXPECT_EQ(tied.aliases.at("cls.predictions.decoder.bias"), "cls.predictions.bias");
  EXPECT_EQ(tied.repeats.count("cls.predictions.decoder.bias"), 1u);
  // Without, the layer's own bias counts.
  const TensorNames untied =
      TensorNamesOf(*ParseEncoder("bert", "BertForMaskedLM", {{"tie_word_embeddings", false}}));
  EXPECT_EQ(untied.tied_to, "");
  EXPECT_EQ(untied.shapes.count("cls.predictions.decoder.weight"), 1u);
  EXPECT_EQ(untied.aliases.at("cls.predictions.bias"), "cls.predictions.decoder.bias");
}

TEST(EncoderConfig, RobertasPositionsBeginBehindItsPadding) {
  const auto parse = [](const nlohmann::json& more) {
    return ParseEncoder("roberta", "RobertaForSequenceClassification", more);
  };
  EXPECT_EQ(parse({{"max_position_embeddings", 514}})->shape.positions, 512);
  EXPECT_FALSE(parse({{"max_position_embeddings", 2}}).ok());
  EXPECT_FALSE(parse({{"pad_token_id", nullptr}}).ok());
}

TEST(EncoderConfig, SizesAreThoseOfTheirCheckpoints) {
  // As transformers counts them, of the default configs and two labels.
  EXPECT_EQ(ParseBert({})->shape.model.parameter_count(), 109483778u);
  EXPECT_EQ(ParseEncoder("distilbert", "DistilBertForSequenceClassification", {})
                ->shape.model.parameter_count(),
            66955010u);
  EXPECT_EQ(ParseEncoder("roberta", "RobertaForSequenceClassification",
                         {{"max_position_embeddings", 514}, {"type_vocab_size", 1}})
                ->shape.model.parameter_count(),
            124647170u);
  // ... and of masked language models.
  EXPECT_EQ(ParseEncoder("bert", "BertForMaskedLM", {})->shape.model.parameter_count(), 109514298u);
  EXPECT_EQ(ParseEncoder("distilbert", "DistilBertForMaskedLM", {})->shape.model.parameter_count(),
            66985530u);
  EXPECT_EQ(ParseEncoder("roberta", "RobertaForMaskedLM",
                         {{"max_position_embeddings", 514}, {"type_vocab_size", 1}})
                ->shape.model.parameter_count(),
            124697433u);
}

}  // namespace
}  // namespace spillway
