#include "engine/families/family_table.h"

#include "absl/algorithm/container.h"
#include "engine/families/decoder_families.h"
#include "engine/families/encoder_families.h"
#include "engine/families/seq2seq_families.h"

namespace spillway {
namespace {

Family BartLike(const char* architecture, const char* without_head) {
  return {.read = ReadBart,
          .architectures = {architecture, without_head},
          .base_prefix = "model.",
          .aliases = {{"model.encoder.embed_tokens.weight", "model.shared.weight"},
                      {"model.decoder.embed_tokens.weight", "model.shared.weight"},
                      {"encoder.embed_tokens.weight", "model.shared.weight"},
                      {"decoder.embed_tokens.weight", "model.shared.weight"}},
          .repeats = true,
          .zeros = {"final_logits_bias"},
          .task = ModelTask::kSeq2Seq};
}

}  // namespace

const std::map<std::string, Family>& Families() {
  static const auto& families = *new std::map<std::string, Family>{
      {"gpt2",
       {ReadGpt2,
        {"GPT2LMHeadModel", "GPT2Model"},
        "transformer.",
        {".attn.bias", ".attn.masked_bias"}}},
      {"llama",
       {ReadLlama, {"LlamaForCausalLM", "LlamaModel"}, "model.", {".rotary_emb.inv_freq"}}},
      {"mistral", {ReadLlama, {"MistralForCausalLM", "MistralModel"}, "model."}},
      {"qwen2", {ReadLlama, {"Qwen2ForCausalLM", "Qwen2Model"}, "model."}},
      {"qwen3", {ReadLlama, {"Qwen3ForCausalLM", "Qwen3Model"}, "model."}},
      {"gemma", {ReadLlama, {"GemmaForCausalLM", "GemmaModel"}, "model.", {}, {}, false}},
      {"gpt_neox",
       {ReadGptNeox,
        {"GPTNeoXForCausalLM", "GPTNeoXModel"},
        "gpt_neox.",
        {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"},
        {{"lm_head.weight", "embed_out.weight"}}}},
      {"opt", {ReadOpt, {"OPTForCausalLM", "OPTModel"}, "model."}},
      {"t5",
       {.read = ReadT5,
        .architectures = {"T5ForConditionalGeneration", "T5Model", "T5WithLMHeadModel"},
        .ignored = {".EncDecAttention.relative_attention_bias.weight"},
        .aliases = {{"encoder.embed_tokens.weight", "shared.weight"},
                    {"decoder.embed_tokens.weight", "shared.weight"}},
        .repeats = true,
        .task = ModelTask::kSeq2Seq}},
      {"bart", BartLike("BartForConditionalGeneration", "BartModel")},
      {"blenderbot", BartLike("BlenderbotForConditionalGeneration", "BlenderbotModel")},
      {"blenderbot-small",
       BartLike("BlenderbotSmallForConditionalGeneration", "BlenderbotSmallModel")},
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
                  {"BertForMaskedLM",
                   ModelTask::kMaskedLm,
                   {"cls.seq_relationship.", "classifier.", "qa_outputs.", "bert.pooler."},
                   {"cls.predictions."}}}}},
      {"roberta",
       {.read = ReadBert,
        .base_prefix = "roberta.",
        .ignored = {".position_ids"},
        .heads = {{"RobertaForSequenceClassification",
                   ModelTask::kClassify,
                   {"lm_head.", "qa_outputs.", "roberta.pooler.", "classifier.weight",
                    "classifier.bias"},
                   {"classifier."}},
                  {"RobertaForTokenClassification",
                   ModelTask::kClassify,
                   {"lm_head.", "qa_outputs.", "roberta.pooler.", "classifier.dense.",
                    "classifier.out_proj."},
                   {"classifier."}},
                  {"RobertaForMaskedLM",
                   ModelTask::kMaskedLm,
                   {"classifier.", "qa_outputs.", "roberta.pooler."},
                   {"lm_head."}}}}},
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
                  {"DistilBertForMaskedLM",
                   ModelTask::kMaskedLm,
                   {"classifier.", "pre_classifier.", "qa_outputs."},
                   {"vocab_transform.", "vocab_layer_norm.", "vocab_projector."}}}}},
      {"resnet",
       {.read = nullptr,
        .architectures = {"ResNetModel"},
        .base_prefix = "resnet.",
        .heads = {{"ResNetForImageClassification", ModelTask::kClassifyImage, {}, {"classifier."}}},
        .read_pictures = ReadResNet}},
  };
  return families;
}

std::vector<const char*> ArchitecturesOf(const Family& family) {
  std::vector<const char*> names = family.architectures;
  for (const Head& head : family.heads) names.push_back(head.architecture);
  return names;
}

std::vector<ModelTask> TasksOf(const Family& family) {
  std::vector<ModelTask> tasks;
  for (const Head& head : family.heads) {
    if (!absl::c_linear_search(tasks, head.task)) tasks.push_back(head.task);
  }
  if (tasks.empty()) tasks.push_back(family.task);
  return tasks;
}

}  // namespace spillway
