#include "engine/families/family_table.h"

#include "absl/algorithm/container.h"
#include "engine/families/decoder_families.h"
#include "engine/families/encoder_families.h"
#include "engine/families/seq2seq_families.h"

namespace spillway {
namespace {

// Prefixes of heads for other tasks that transformers puts on decoders and encoder-decoders, and
// TRL's value head.
const std::vector<std::string>& OtherHeads() {
  static const auto& names = *new std::vector<std::string>{
      "score.", "classifier.", "qa_outputs.", "classification_head.", "multiple_choice_head.",
      "v_head."};
  return names;
}

// The head of a decoder that classifies texts. `stem`: prefix of class names, "Llama".
Head ScoreHead(const std::string& stem) {
  return {
      stem + "ForSequenceClassification",
      ModelTask::kClassify,
      {"lm_head.", "embed_out.", "classifier.", "qa_outputs.", "multiple_choice_head.", "v_head."},
      {"score."}};
}

// `stem`: prefix of class names, "Llama".
Family LlamaLike(const std::string& stem) {
  return {.read = ReadLlama,
          .architectures = {stem + "ForCausalLM", stem + "Model"},
          .base_prefix = "model.",
          .heads = {ScoreHead(stem)},
          .others = OtherHeads(),
          .own = {"lm_head."},
          .other_prefix = "transformer."};
}

// In the form of the first conversions, which stored frequencies with the weights.
Family Llama() {
  Family family = LlamaLike("Llama");
  family.architectures.emplace_back("LLaMAForCausalLM");
  family.ignored = {".rotary_emb.inv_freq"};
  return family;
}

Family T5Like(const std::string& stem) {
  return {.read = ReadT5,
          .architectures = {stem + "ForConditionalGeneration", stem + "Model",
                            stem + "WithLMHeadModel"},
          .ignored = {".EncDecAttention.relative_attention_bias.weight"},
          .aliases = {{"encoder.embed_tokens.weight", "shared.weight"},
                      {"decoder.embed_tokens.weight", "shared.weight"}},
          .repeats = true,
          .others = OtherHeads(),
          .own = {"lm_head."},
          .other_prefix = "transformer.",
          .task = ModelTask::kSeq2Seq};
}

Family BartLike(const std::string& stem) {
  return {.read = ReadBart,
          .architectures = {stem + "ForConditionalGeneration", stem + "Model"},
          .base_prefix = "model.",
          .aliases = {{"model.encoder.embed_tokens.weight", "model.shared.weight"},
                      {"model.decoder.embed_tokens.weight", "model.shared.weight"},
                      {"encoder.embed_tokens.weight", "model.shared.weight"},
                      {"decoder.embed_tokens.weight", "model.shared.weight"}},
          .repeats = true,
          .zeros = {"final_logits_bias"},
          .others = OtherHeads(),
          .task = ModelTask::kSeq2Seq};
}

// `prefix`: that of the encoder's tensors.
Family RobertaLike(const std::string& stem, const std::string& prefix) {
  return {.read = ReadBert,
          .base_prefix = prefix,
          .ignored = {".position_ids"},
          .heads = {{stem + "ForSequenceClassification",
                     ModelTask::kClassify,
                     {"lm_head.", "qa_outputs.", prefix + "pooler.", "classifier.weight",
                      "classifier.bias"},
                     {"classifier."}},
                    {stem + "ForTokenClassification",
                     ModelTask::kClassify,
                     {"lm_head.", "qa_outputs.", prefix + "pooler.", "classifier.dense.",
                      "classifier.out_proj."},
                     {"classifier."}},
                    {stem + "ForQuestionAnswering",
                     ModelTask::kQuestionAnswering,
                     {"lm_head.", "classifier.", prefix + "pooler."},
                     {"qa_outputs."}},
                    {stem + "ForMaskedLM",
                     ModelTask::kMaskedLm,
                     {"classifier.", "qa_outputs.", prefix + "pooler."},
                     {"lm_head."}}}};
}

}  // namespace

const std::map<std::string, Family>& Families() {
  static const auto& families = *new std::map<std::string, Family>{
      {"gpt2",
       {.read = ReadGpt2,
        .architectures = {"GPT2LMHeadModel", "GPT2Model"},
        .base_prefix = "transformer.",
        .ignored = {".attn.bias", ".attn.masked_bias"},
        .heads = {ScoreHead("GPT2")},
        .others = OtherHeads(),
        .own = {"lm_head."}}},
      {"llama", Llama()},
      {"mistral", LlamaLike("Mistral")},
      {"phi3", LlamaLike("Phi3")},
      {"qwen2", LlamaLike("Qwen2")},
      {"qwen3", LlamaLike("Qwen3")},
      {"gemma",
       {.read = ReadLlama,
        .architectures = {"GemmaForCausalLM", "GemmaModel"},
        .base_prefix = "model.",
        .trained = false}},
      {"gpt_neox",
       {.read = ReadGptNeox,
        .architectures = {"GPTNeoXForCausalLM", "GPTNeoXModel"},
        .base_prefix = "gpt_neox.",
        .ignored = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"},
        .aliases = {{"lm_head.weight", "embed_out.weight"}},
        .heads = {ScoreHead("GPTNeoX")},
        .others = OtherHeads(),
        .own = {"embed_out."}}},
      {"opt",
       {.read = ReadOpt,
        .architectures = {"OPTForCausalLM", "OPTModel"},
        .base_prefix = "model.",
        .others = OtherHeads(),
        .own = {"lm_head."}}},
      {"t5", T5Like("T5")},
      {"mt5", T5Like("MT5")},
      {"bart", BartLike("Bart")},
      {"blenderbot", BartLike("Blenderbot")},
      {"blenderbot-small", BartLike("BlenderbotSmall")},
      {"whisper",
       {.read = ReadWhisper,
        .architectures = {"WhisperForConditionalGeneration", "WhisperModel"},
        .base_prefix = "model.",
        .task = ModelTask::kTranscribe}},
      {"bert",
       {.read = ReadBert,
        .base_prefix = "bert.",
        .ignored = {".position_ids"},
        .heads = {{"BertForSequenceClassification",
                   ModelTask::kClassify,
                   {"cls.", "qa_outputs."},
                   {"classifier.", "bert.pooler."}},
                  {"BertForTokenClassification",
                   ModelTask::kClassify,
                   {"cls.", "qa_outputs.", "bert.pooler."},
                   {"classifier."}},
                  {"BertForQuestionAnswering",
                   ModelTask::kQuestionAnswering,
                   {"cls.", "classifier.", "bert.pooler."},
                   {"qa_outputs."}},
                  {"BertForMaskedLM",
                   ModelTask::kMaskedLm,
                   {"cls.seq_relationship.", "classifier.", "qa_outputs.", "bert.pooler."},
                   {"cls.predictions."}}}}},
      {"roberta", RobertaLike("Roberta", "roberta.")},
      {"xlm-roberta", RobertaLike("XLMRoberta", "roberta.")},
      {"camembert", RobertaLike("Camembert", "roberta.")},
      {"data2vec-text", RobertaLike("Data2VecText", "data2vec_text.")},
      {"distilbert",
       {.read = ReadDistilBert,
        .base_prefix = "distilbert.",
        .ignored = {".position_ids"},
        .heads = {{"DistilBertForSequenceClassification",
                   ModelTask::kClassify,
                   {"vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "qa_outputs."},
                   {"classifier.", "pre_classifier."}},
                  {"DistilBertForTokenClassification",
                   ModelTask::kClassify,
                   {"vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "qa_outputs.",
                    "pre_classifier."},
                   {"classifier."}},
                  {"DistilBertForQuestionAnswering",
                   ModelTask::kQuestionAnswering,
                   {"vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "classifier.",
                    "pre_classifier."},
                   {"qa_outputs."}},
                  {"DistilBertForMaskedLM",
                   ModelTask::kMaskedLm,
                   {"classifier.", "pre_classifier.", "qa_outputs."},
                   {"vocab_transform.", "vocab_layer_norm.", "vocab_projector."}}}}},
      {"resnet",
       {.read = nullptr,
        .architectures = {"ResNetModel"},
        .base_prefix = "resnet.",
        .heads = {{"ResNetForImageClassification", ModelTask::kClassifyImage, {}, {"classifier."}}},
        .read_pictures = ReadResNet,
        .task = ModelTask::kClassifyImage}},
  };
  return families;
}

std::vector<std::string> ArchitecturesOf(const Family& family) {
  std::vector<std::string> names = family.architectures;
  for (const Head& head : family.heads) names.push_back(head.architecture);
  return names;
}

std::vector<ModelTask> TasksOf(const Family& family) {
  std::vector<ModelTask> tasks;
  if (!family.architectures.empty()) tasks.push_back(family.task);
  for (const Head& head : family.heads) {
    if (!absl::c_linear_search(tasks, head.task)) tasks.push_back(head.task);
  }
  return tasks;
}

}  // namespace spillway
