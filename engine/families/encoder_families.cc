#include "engine/families/encoder_families.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/families/layer_keys.h"

namespace spillway {
namespace {

// The task by the architecture: labels of tokens, answers to questions, masked tokens, or else
// labels of texts.
enum class EncoderTask { kTexts, kTokens, kSpans, kMasked };
EncoderTask TaskOf(ConfigReader& reader) {
  const std::string name = ArchitectureOf(reader);
  if (absl::EndsWith(name, "ForMaskedLM")) return EncoderTask::kMasked;
  if (absl::EndsWith(name, "ForQuestionAnswering")) return EncoderTask::kSpans;
  return absl::EndsWith(name, "ForTokenClassification") ? EncoderTask::kTokens
                                                        : EncoderTask::kTexts;
}

// The head of a model that answers questions: a classifier of two labels for each token.
void ReadSpans(ConfigReader& reader, TransformerConfig& c) {
  ClassifierConfig labels;
  ReadLabels(reader, labels);
  if (reader.status().ok() && labels.labels.size() != 2) {
    const char* const key = reader.Has({"id2label"}) ? "id2label" : "num_labels";
    reader.Fail(key, absl::StrCat("the config has ", labels.labels.size(),
                                  " labels, and answers to questions need two scores of each "
                                  "token: leave out id2label, label2id and num_labels"));
  }
  c.finds_spans = true;
  c.names.classifier = "qa_outputs";
  c.names.pooler.clear();
}

// Settings of all encoders: layers with norms after them.
void BecomeEncoder(TransformerConfig& c) {
  c.order = TransformerConfig::Order::kPostNorm;
  c.norm = TransformerConfig::Norm::kLayer;
  c.norm_epsilon = 1e-12;
  c.final_norm = c.causal = false;
  c.query_bias = c.output_bias = c.mlp_bias = true;
  c.activation = Activation::kGelu;
  c.embedding_dropout = c.attention_dropout = c.residual_dropout = 0.1;
  c.positions = 512;
}

// REQUIRES: sizes are read.
void ReadRest(ConfigReader& reader, TransformerConfig& c) {
  RefuseOtherModels(reader);
  bool tied = true;
  reader.Boolean({"tie_word_embeddings"}, &tied);
  reader.Integer({"max_position_embeddings"}, kMaxPositions, &c.positions);
  c.embedding_width = c.hidden;
  c.key_value_heads = c.heads;
  ReadHeadSize(reader, 0, c);
  reader.Number({"initializer_range"}, 0, 1000, "a number from 0 to 1000", &c.init_std);
  const EncoderTask task = TaskOf(reader);
  if (task == EncoderTask::kMasked) {
    c.masked = true;
    c.tied = tied;
    // transformers ties the bias with the matrix: if untied, the layer's own bias counts.
    if (!tied && !c.names.other_logits_bias.empty()) {
      std::swap(c.names.logits_bias, c.names.other_logits_bias);
    }
    return;
  }
  if (task == EncoderTask::kSpans) return ReadSpans(reader, c);
  c.classifier.emplace();
  ReadLabels(reader, *c.classifier);
  if (task == EncoderTask::kTexts) return;
  c.classifier->of_tokens = true;
  c.classifier->problem = ClassifierProblem::kSingleLabel;
  c.names.pooler.clear();
  c.names.classifier = "classifier";
}

// The position matrix has a row for padding tokens, and unused rows before it.
void SkipPadding(ConfigReader& reader, TransformerConfig& c) {
  if (!reader.status().ok()) return;
  if (!c.padding_token) {
    return reader.Fail("pad_token_id",
                       "pad_token_id is no token of the model: RoBERTa counts positions from it");
  }
  c.position_offset = *c.padding_token + 1;
  c.positions_skip_padding = true;
  c.positions -= c.position_offset;
  if (c.positions < 1) {
    reader.Fail("max_position_embeddings",
                absl::StrCat("max_position_embeddings ", c.positions + c.position_offset,
                             " has no position behind the padding token's, ", *c.padding_token));
  }
}

}  // namespace

void ReadBert(ConfigReader& reader, TransformerConfig& c) {
  // XLM-RoBERTa, CamemBERT and data2vec's text encoder are RoBERTa under other names.
  const bool roberta = c.model_type != "bert";
  const std::string prefix = !roberta                          ? "bert."
                             : c.model_type == "data2vec-text" ? "data2vec_text."
                                                               : "roberta.";
  c.names = {
      .tokens = prefix + "embeddings.word_embeddings.weight",
      .positions = prefix + "embeddings.position_embeddings.weight",
      .token_types = prefix + "embeddings.token_type_embeddings.weight",
      .embedding_norm = prefix + "embeddings.LayerNorm",
      .layer = prefix + "encoder.layer.",
      .norm_1 = "attention.output.LayerNorm",
      .query = "attention.self.query",
      .key = "attention.self.key",
      .value = "attention.self.value",
      .attention_output = "attention.output.dense",
      .norm_2 = "output.LayerNorm",
      .up = "intermediate.dense",
      .down = "output.dense",
      .logits = roberta ? "lm_head.decoder.weight" : "cls.predictions.decoder.weight",
      .transform = roberta ? "lm_head.dense" : "cls.predictions.transform.dense",
      .transform_norm = roberta ? "lm_head.layer_norm" : "cls.predictions.transform.LayerNorm",
      .logits_bias = roberta ? "lm_head.bias" : "cls.predictions.bias",
      .other_logits_bias = roberta ? "lm_head.decoder.bias" : "cls.predictions.decoder.bias",
      .pooler = roberta ? "classifier.dense" : "bert.pooler.dense",
      .classifier = roberta ? "classifier.out_proj" : "classifier"};
  BecomeEncoder(c);
  c.vocabulary = c.model_type == "roberta" ? 50265 : 30522;
  c.hidden = 768;
  c.layers = c.heads = 12;
  c.intermediate = 3072;
  c.token_types = 2;
  reader.Integer({"vocab_size"}, kMaxVocabulary, &c.vocabulary);
  reader.Integer({"hidden_size"}, kMaxWidth, &c.hidden);
  reader.Integer({"num_hidden_layers"}, kMaxLayers, &c.layers);
  reader.Integer({"num_attention_heads"}, kMaxWidth, &c.heads);
  reader.Integer({"intermediate_size"}, kMaxInner, &c.intermediate);
  reader.Integer({"type_vocab_size"}, kMaxVocabulary, &c.token_types);
  ReadRest(reader, c);
  ReadActivation(reader, {"hidden_act"}, &c.activation);
  reader.Positive({"layer_norm_eps"}, 1, &c.norm_epsilon);
  reader.Probability({"hidden_dropout_prob"}, &c.residual_dropout);
  reader.Probability({"attention_probs_dropout_prob"}, &c.attention_dropout);
  c.embedding_dropout = c.residual_dropout;
  if (!roberta) c.transform_activation = c.activation;
  double dropout = c.residual_dropout;
  reader.Probability({"classifier_dropout"}, &dropout);
  if (c.classifier) {
    c.classifier->dropout = dropout;
    if (roberta) c.classifier->input_dropout = dropout;
  }
  reader.MustBeOff("is_decoder", "a decoder");
  const std::string positions = reader.Text("position_embedding_type");
  if (!positions.empty() && positions != "absolute") {
    reader.Unsupported(
        "position_embedding_type",
        absl::StrCat("position_embedding_type is \"", positions, "\"; \"absolute\" is supported"));
  }
  ReadPaddingToken(reader, roberta ? 1 : 0, c);
  if (roberta) SkipPadding(reader, c);
}

void ReadDistilBert(ConfigReader& reader, TransformerConfig& c) {
  c.names = {.tokens = "distilbert.embeddings.word_embeddings.weight",
             .positions = "distilbert.embeddings.position_embeddings.weight",
             .embedding_norm = "distilbert.embeddings.LayerNorm",
             .layer = "distilbert.transformer.layer.",
             .norm_1 = "sa_layer_norm",
             .query = "attention.q_lin",
             .key = "attention.k_lin",
             .value = "attention.v_lin",
             .attention_output = "attention.out_lin",
             .norm_2 = "output_layer_norm",
             .up = "ffn.lin1",
             .down = "ffn.lin2",
             .logits = "vocab_projector.weight",
             .transform = "vocab_transform",
             .transform_norm = "vocab_layer_norm",
             .logits_bias = "vocab_projector.bias",
             .pooler = "pre_classifier",
             .classifier = "classifier"};
  BecomeEncoder(c);
  c.vocabulary = 30522;
  c.hidden = 768;
  c.layers = 6;
  c.heads = 12;
  c.intermediate = 3072;
  reader.Integer({"vocab_size"}, kMaxVocabulary, &c.vocabulary);
  reader.Integer({"dim", "hidden_size"}, kMaxWidth, &c.hidden);
  reader.Integer({"n_layers", "num_hidden_layers"}, kMaxLayers, &c.layers);
  reader.Integer({"n_heads", "num_attention_heads"}, kMaxWidth, &c.heads);
  reader.Integer({"hidden_dim"}, kMaxInner, &c.intermediate);
  ReadRest(reader, c);
  ReadActivation(reader, {"activation"}, &c.activation);
  c.attention_output_dropout = false;
  reader.Probability({"dropout"}, &c.residual_dropout);
  reader.Probability({"attention_dropout"}, &c.attention_dropout);
  c.embedding_dropout = c.residual_dropout;
  c.transform_activation = c.activation;
  double dropout = 0.2;
  reader.Probability({"seq_classif_dropout"}, &dropout);
  if (c.classifier) {
    c.classifier->activation = Activation::kRelu;
    c.classifier->dropout = c.classifier->of_tokens ? c.residual_dropout : dropout;
  }
  c.span_dropout = 0.1;
  reader.Probability({"qa_dropout"}, &c.span_dropout);
  reader.MustBeOff("sinusoidal_pos_embds", "leaving positions as they were made");
  ReadPaddingToken(reader, 0, c);
}

}  // namespace spillway
