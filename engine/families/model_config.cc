#include "engine/families/model_config.h"

#include <sys/stat.h>

#include <cerrno>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/families/decoder_families.h"
#include "engine/families/encoder_families.h"
#include "engine/families/seq2seq_families.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;

// What of a family's models stands behind their layers.
struct Head {
  const char* architecture;
  // Beginnings of names: of tensors that other heads have; of parameters that a file of the model
  // with another head does not have.
  std::vector<const char*> others, own;
};

struct Family {
  // Null of a model of another kind, which has one of its own.
  void (*read)(ConfigReader& reader, DecoderConfig& config);
  // The first is what is exported; the others have the same tensors, or all but the head.
  std::vector<const char*> architectures = {};
  // What files of the model without its head leave out of its tensors' names.
  const char* base_prefix = "";
  // Ends of names of tensors that are no parameters: causal masks and frequencies that old
  // versions of transformers saved with the weights.
  std::vector<const char*> ignored = {};
  // A parameter under another name: {in files, ours}.
  std::map<std::string, std::string> aliases = {};
  bool trained = true;
  // Of texts, of tokens and of masked ones, of which a model has one; the architectures are theirs.
  std::vector<Head> heads = {};
  // Files may have a parameter under its aliases as well as under its name.
  bool repeats = false;
  // Tensors that a file may have where they are zero.
  std::vector<std::string> zeros = {};
  void (*read_other)(ConfigReader& reader, ModelConfig& config) = nullptr;
};

Family BartLike(const char* architecture, const char* without_head) {
  return {.read = ReadBart,
          .architectures = {architecture, without_head},
          .base_prefix = "model.",
          .aliases = {{"model.encoder.embed_tokens.weight", "model.shared.weight"},
                      {"model.decoder.embed_tokens.weight", "model.shared.weight"},
                      {"encoder.embed_tokens.weight", "model.shared.weight"},
                      {"decoder.embed_tokens.weight", "model.shared.weight"}},
          .repeats = true,
          .zeros = {"final_logits_bias"}};
}

void ReadResNetModel(ConfigReader& reader, ModelConfig& config) {
  ReadResNet(reader, config.resnet.emplace());
}

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
        .repeats = true}},
      {"bart", BartLike("BartForConditionalGeneration", "BartModel")},
      {"blenderbot", BartLike("BlenderbotForConditionalGeneration", "BlenderbotModel")},
      {"blenderbot-small",
       BartLike("BlenderbotSmallForConditionalGeneration", "BlenderbotSmallModel")},
      {"whisper",
       {.read = ReadWhisper,
        .architectures = {"WhisperForConditionalGeneration", "WhisperModel"},
        .base_prefix = "model."}},
      {"bert",
       {.read = ReadBert,
        .base_prefix = "bert.",
        .ignored = {".position_ids"},
        .heads = {{"BertForSequenceClassification",
                   {"cls.", "qa_outputs."},
                   {"classifier.", "bert.pooler."}},
                  {"BertForTokenClassification",
                   {"cls.", "qa_outputs.", "bert.pooler."},
                   {"classifier."}},
                  {"BertForMaskedLM",
                   {"cls.seq_relationship.", "classifier.", "qa_outputs.", "bert.pooler."},
                   {"cls.predictions."}}}}},
      {"roberta",
       {.read = ReadBert,
        .base_prefix = "roberta.",
        .ignored = {".position_ids"},
        .heads = {{"RobertaForSequenceClassification",
                   {"lm_head.", "qa_outputs.", "roberta.pooler."},
                   {"classifier."}},
                  {"RobertaForTokenClassification",
                   {"lm_head.", "qa_outputs.", "roberta.pooler.", "classifier.dense.",
                    "classifier.out_proj."},
                   {"classifier."}},
                  {"RobertaForMaskedLM",
                   {"classifier.", "qa_outputs.", "roberta.pooler."},
                   {"lm_head."}}}}},
      {"distilbert",
       {.read = ReadDistilBert,
        .base_prefix = "distilbert.",
        .ignored = {".position_ids"},
        .heads = {{"DistilBertForSequenceClassification",
                   {"vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "qa_outputs."},
                   {"classifier.", "pre_classifier."}},
                  {"DistilBertForTokenClassification",
                   {"vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "qa_outputs.",
                    "pre_classifier."},
                   {"classifier."}},
                  {"DistilBertForMaskedLM",
                   {"classifier.", "pre_classifier.", "qa_outputs."},
                   {"vocab_transform.", "vocab_layer_norm.", "vocab_projector."}}}}},
      {"resnet",
       {.read = nullptr,
        .architectures = {"ResNetModel"},
        .base_prefix = "resnet.",
        .heads = {{"ResNetForImageClassification", {}, {"classifier."}}},
        .read_other = ReadResNetModel}},
  };
  return families;
}

std::vector<const char*> ArchitecturesOf(const Family& family) {
  std::vector<const char*> names = family.architectures;
  for (const Head& head : family.heads) names.push_back(head.architecture);
  return names;
}

// REQUIRES: the family has some.
const Head& HeadOf(const Family& family, const DecoderConfig& config) {
  return family.heads[config.masked                                       ? 2
                      : config.classifier && config.classifier->of_tokens ? 1
                                                                          : 0];
}

void CheckArchitecture(ConfigReader& reader, const Family& family) {
  const json* found = reader.Find({"architectures"});
  const std::vector<const char*> architectures = ArchitecturesOf(family);
  if (found == nullptr && family.heads.size() > 1) {
    // What an encoder is for is said nowhere else.
    reader.Unsupported("", absl::StrCat("there are no architectures, which say what the model is "
                                        "for; supported architectures: \"",
                                        absl::StrJoin(architectures, "\", \""), "\""));
  }
  if (found == nullptr) return;
  if (!found->is_array()) return reader.Refuse("architectures", *found, "a list of names");
  for (const json& name : *found) {
    bool known = false;
    for (const char* ours : architectures) known |= name == json(ours);
    if (known) continue;
    reader.Unsupported("architectures",
                       absl::StrCat("architectures has ", ConfigReader::Shown(name),
                                    "; supported architectures: \"",
                                    absl::StrJoin(architectures, "\", \""), "\""));
  }
}

}  // namespace

std::string SupportedModelTypes() {
  std::vector<std::string> names;
  for (const auto& [name, family] : Families()) {
    if (family.trained) names.push_back(absl::StrCat("\"", name, "\""));
  }
  return absl::StrJoin(names, ", ");
}

bool IsKnownFamily(const std::string& model_type) { return Families().count(model_type) > 0; }

absl::StatusOr<ModelConfig> ParseModelConfig(const JsonDocument& document,
                                             const std::string& pointer) {
  if (!document.value.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(document.file, ": not a JSON object"));
  }
  ConfigReader reader(document, pointer);
  const json* type = reader.Find({"model_type"});
  const auto family = type != nullptr && type->is_string()
                          ? Families().find(type->get<std::string>())
                          : Families().end();
  if (family == Families().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(reader.Where("model_type"), ": model_type is ",
                     type == nullptr ? "missing" : ConfigReader::Shown(*type),
                     "; supported model types: ", SupportedModelTypes()));
  }
  ModelConfig config;
  config.decoder.model_type = family->first;
  CheckArchitecture(reader, family->second);
  if (family->second.read_other != nullptr) {
    family->second.read_other(reader, config);
  } else {
    family->second.read(reader, config.decoder);
  }
  if (!family->second.trained) {
    reader.Unsupported("model_type", absl::StrCat("model_type is \"", family->first,
                                                  "\": this family can be estimated, not trained"));
  }
  RETURN_IF_ERROR(reader.status());
  config.shape = config.resnet ? ShapeOf(*config.resnet) : ShapeOf(config.decoder);
  const absl::Status laid_out = LayOutParameters(config.shape.model);
  if (!laid_out.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(document.file, ": ", laid_out.message()));
  }
  config.original = document.value;
  config.warnings = reader.Warnings();
  config.unsupported = reader.unsupported();
  return config;
}

const ClassifierConfig* ModelConfig::classifier() const {
  if (resnet) return &resnet->classifier;
  return decoder.classifier ? &*decoder.classifier : nullptr;
}

namespace {

bool IsDirectory(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// "openai-community/gpt2", where there is no folder of the first name that it could be in.
bool LooksLikeHubName(const std::string& dir) {
  const std::vector<std::string> parts = absl::StrSplit(dir, '/');
  if (parts.size() == 1) {
    // Of the first models, which have no owner there.
    constexpr absl::string_view kFirst[] = {"gpt2",        "distilgpt2", "bert-",
                                            "distilbert-", "t5-",        "roberta-"};
    if (absl::c_none_of(kFirst, [&](auto name) { return absl::StartsWith(dir, name); })) {
      return false;
    }
  } else if (parts.size() != 2 || IsDirectory(parts[0])) {
    return false;
  }
  return absl::c_all_of(parts, [](const std::string& part) {
    return !part.empty() && absl::ascii_isalnum(part[0]) && absl::c_all_of(part, [](char c) {
      return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
    });
  });
}

}  // namespace

absl::Status CheckModelDirectory(const std::string& dir) {
  if (IsDirectory(dir)) return absl::OkStatus();
  struct stat info;
  if (::stat(dir.c_str(), &info) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model ", dir,
                     " is not a directory: give the one that holds config.json and the weights"));
  }
  const int error = errno;
  if (error == ENOENT && LooksLikeHubName(dir)) {
    const std::string name = dir.substr(dir.find('/') + 1);
    return absl::NotFoundError(
        absl::StrCat("--model ", dir,
                     ": there is no such directory. It looks like a model's name on Hugging "
                     "Face's hub, which `hf download ",
                     dir, " --local-dir ", name,
                     "` fetches (pip install huggingface_hub); then give --model ", name));
  }
  return ErrnoStatus(error, absl::StrCat("--model ", dir, ", a directory with a config.json"));
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& dir) {
  ASSIGN_OR_RETURN(const JsonDocument document, ReadStrictJson(dir + "/config.json"));
  ASSIGN_OR_RETURN(ModelConfig config, ParseModelConfig(document));
  if (!config.unsupported.empty()) return absl::InvalidArgumentError(config.unsupported.front());
  return config;
}

PackedFormat QuantisedAs(const json& config) {
  const auto found = config.find("quantization_config");
  if (found == config.end() || !found->is_object()) return PackedFormat::kNone;
  const auto is = [&](const char* key, const json& value) {
    return found->value(key, json()) == value;
  };
  if (!is("quant_method", "bitsandbytes")) return PackedFormat::kNone;
  if (is("load_in_8bit", true)) return PackedFormat::kInt8;
  if (!is("load_in_4bit", true) || !is("bnb_4bit_quant_type", "nf4")) return PackedFormat::kNone;
  return is("bnb_4bit_use_double_quant", true) ? PackedFormat::kNf4Nested : PackedFormat::kNf4;
}

namespace {

void AddBuffers(const ResNetConfig& config, TensorNames& names) {
  for (const ResNetUnit& unit : UnitsOf(config)) {
    for (const ResNetTensor& buffer : BuffersOf(unit)) {
      names.shapes[buffer.name] = {buffer.shape.begin(), buffer.shape.end()};
      if (buffer.shape.empty()) names.whole.insert(buffer.name);
    }
  }
}

}  // namespace

TensorNames TensorNamesOf(const ModelConfig& config) {
  const Family& family = Families().at(config.shape.model_type);
  TensorNames names;
  for (const UnitDescription& unit : config.shape.model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      names.shapes[parameter.name] = {parameter.shape.begin(), parameter.shape.end()};
      if (parameter.linear != LinearWeight::kNone) names.linear[parameter.name] = parameter.linear;
    }
  }
  if (config.resnet) AddBuffers(*config.resnet, names);
  names.base_prefix = family.base_prefix;
  names.ignored.assign(family.ignored.begin(), family.ignored.end());
  if (!family.heads.empty()) {
    const Head& head = HeadOf(family, config.decoder);
    names.other_heads.assign(head.others.begin(), head.others.end());
    names.new_head.assign(head.own.begin(), head.own.end());
  }
  names.aliases = family.aliases;
  names.zeros.insert(family.zeros.begin(), family.zeros.end());
  for (const auto& [alias, name] : family.aliases) {
    if (family.repeats) names.repeats.insert(alias);
  }
  const DecoderNames& ours = config.decoder.names;
  if (config.decoder.masked && !ours.other_logits_bias.empty()) {
    names.aliases[ours.other_logits_bias] = ours.logits_bias;
    names.repeats.insert(ours.other_logits_bias);
  }
  if (!config.decoder.classifier) names.head = ours.logits;
  if (config.decoder.tied) names.tied_to = config.decoder.names.tokens;
  return names;
}

json ExportedConfig(const ModelConfig& config) {
  json out = config.original;
  // transformers would take GPT-2's own 50256 for them, which this vocabulary may not have.
  if (config.decoder.model_type == "gpt2" && config.decoder.vocabulary <= 50256) {
    for (const char* token : {"bos_token_id", "eos_token_id"}) {
      if (!out.contains(token)) out[token] = nullptr;
    }
  }
  const Family& family = Families().at(config.decoder.model_type);
  if (family.heads.empty()) {
    // The one that is there may be the model's without its head.
    json& said = out["architectures"];
    if (!said.is_array() || said.empty()) said = json::array({family.architectures.front()});
  } else if (const char* name = HeadOf(family, config.decoder).architecture;
             !absl::c_linear_search(out.value("architectures", json::array()), json(name))) {
    out["architectures"] = json::array({name});
  }
  out.erase("quantization_config");  // what is exported is not
  const ClassifierConfig* const classifier = config.classifier();
  if (classifier != nullptr && classifier->problem && !classifier->of_tokens) {
    out["problem_type"] = ProblemName(*classifier->problem);
  }
  return out;
}

}  // namespace spillway
