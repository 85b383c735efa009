#include "engine/families/model_config.h"

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/model_file.h"
#include "engine/families/family_table.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

using nlohmann::json;

// "--task classify or --task masked-lm".
std::string TaskFlags(const std::vector<ModelTask>& tasks) {
  return absl::StrJoin(tasks, " or ", [](std::string* out, ModelTask task) {
    absl::StrAppend(out, "--task ", ModelTaskName(task));
  });
}

// Null for the model that `family.architectures` name.
const Head* HeadOf(const Family& family, const ModelConfig& config) {
  const ModelTask task = config.task();
  const auto& classifier = config.transformer.classifier;
  const bool of_tokens = classifier && classifier->of_tokens;
  for (const Head& head : family.heads) {
    const bool is_of_tokens = absl::EndsWith(head.architecture, "ForTokenClassification");
    if (head.task == task && is_of_tokens == of_tokens) return &head;
  }
  return nullptr;
}

void CheckArchitecture(ConfigReader& reader, const Family& family) {
  const json* found = reader.Find({"architectures"});
  const std::vector<std::string> architectures = ArchitecturesOf(family);
  const std::vector<ModelTask> tasks = TasksOf(family);
  // Only the architecture tells the task of an encoder.
  const bool open = family.architectures.empty();
  const std::string supported =
      absl::StrCat("supported architectures: \"", absl::StrJoin(architectures, "\", \""),
                   "\"; train takes it with ", TaskFlags(tasks));
  if (found == nullptr && open) {
    reader.Unsupported("", absl::StrCat("there are no architectures, which say what the model is "
                                        "for; ",
                                        supported));
  }
  if (found == nullptr) return;
  if (!found->is_array()) return reader.Refuse("architectures", *found, "a list of names");
  for (const json& name : *found) {
    bool known = false;
    for (const std::string& ours : architectures) known |= name == json(ours);
    if (known) continue;
    reader.Unsupported("architectures", absl::StrCat("architectures has ",
                                                     ConfigReader::Shown(name), "; ", supported));
  }
}

// The model_type of a config without one, by its architecture or a key that only BERT has; "" if
// neither tells.
std::string LikelyModelType(ConfigReader& reader) {
  const json* said = reader.Find({"architectures"});
  const json first = said != nullptr && said->is_array() && !said->empty() ? said->front() : json();
  for (const auto& [name, family] : Families()) {
    for (const std::string& architecture : ArchitecturesOf(family)) {
      if (first == json(architecture)) return name;
    }
  }
  const bool is_bert = first.is_null() && reader.Has({"type_vocab_size"}) &&
                       reader.Has({"intermediate_size"}) && !reader.Has({"embedding_size"});
  return is_bert ? "bert" : "";
}

absl::StatusOr<const Family*> FindFamily(ConfigReader& reader) {
  const json* type = reader.Find({"model_type"});
  const auto family = type != nullptr && type->is_string()
                          ? Families().find(type->get<std::string>())
                          : Families().end();
  if (family != Families().end()) return &family->second;
  const std::string likely = type == nullptr ? LikelyModelType(reader) : "";
  if (!likely.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        reader.Where("model_type"), ": model_type is missing, as in files of early versions of ",
        "transformers. It is a ", likely, " by its other keys: add \"model_type\": \"", likely,
        "\""));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(reader.Where("model_type"), ": model_type is ",
                   type == nullptr ? "missing" : ConfigReader::Shown(*type),
                   "; supported model types: ", SupportedModelTypes()));
}

// The architecture for `task`; "" if the config's own has that task, or the config names none in a
// family with one task.
absl::StatusOr<std::string> ArchitectureFor(ConfigReader& reader, const Family& family,
                                            ModelTask task) {
  const std::vector<ModelTask> tasks = TasksOf(family);
  if (!absl::c_linear_search(tasks, task)) {
    return absl::InvalidArgumentError(absl::StrCat(
        reader.Where("model_type"), ": model_type is \"", reader.Text("model_type"),
        "\", of which there is no --task ", ModelTaskName(task),
        task == ModelTask::kTranscribe ? " (or translate)" : "", ", but ", TaskFlags(tasks)));
  }
  std::vector<std::string> meant;
  for (const Head& head : family.heads) {
    if (head.task == task) meant.push_back(head.architecture);
  }
  if (meant.empty()) meant = family.architectures;
  const std::vector<std::string> known = tasks.size() == 1 ? ArchitecturesOf(family) : meant;
  const json* said = reader.Find({"architectures"});
  const bool names_one = said != nullptr && said->is_array() && !said->empty();
  if (!names_one && !family.architectures.empty() && task == family.task) return "";
  const bool is_meant = names_one && absl::c_any_of(known, [&](const std::string& name) {
                          return said->front() == json(name);
                        });
  return is_meant ? "" : meant.front();
}

void NameTied(const Family& family, ModelConfig& config) {
  const std::string& tokens = config.transformer.names.tokens;
  std::vector<std::string>& names = config.shape.tied_names;
  if (config.transformer.tied) names.push_back(config.transformer.names.logits);
  for (const auto& [alias, name] : family.aliases) {
    if (family.repeats && name == tokens) names.push_back(alias);
  }
  if (!names.empty()) config.shape.tied_to = tokens;
}

absl::StatusOr<ModelConfig> Parse(const JsonDocument& document, const std::string& pointer) {
  ConfigReader reader(document, pointer);
  ASSIGN_OR_RETURN(const Family* const family, FindFamily(reader));
  ModelConfig config;
  config.transformer.model_type = reader.Text("model_type");
  CheckArchitecture(reader, *family);
  if (family->read_pictures != nullptr) {
    family->read_pictures(reader, config.resnet.emplace());
  } else {
    family->read(reader, config.transformer);
  }
  if (!family->trained) {
    reader.Unsupported("model_type", absl::StrCat("model_type is \"", config.transformer.model_type,
                                                  "\": this family can be estimated, not trained; "
                                                  "supported model types: ",
                                                  SupportedModelTypes()));
  }
  RETURN_IF_ERROR(reader.status());
  config.shape = config.resnet ? ShapeOf(*config.resnet) : ShapeOf(config.transformer);
  if (!config.resnet) NameTied(*family, config);
  const absl::Status laid_out = LayOutParameters(config.shape.model);
  if (!laid_out.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(document.file, ": ", laid_out.message()));
  }
  config.original = document.value;
  config.warnings = reader.Warnings();
  config.unsupported = reader.unsupported();
  return config;
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
                                             const std::string& pointer,
                                             std::optional<ModelTask> task) {
  if (!document.value.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(document.file, ": not a JSON object"));
  }
  if (!task) return Parse(document, pointer);
  ConfigReader reader(document, pointer);
  ASSIGN_OR_RETURN(const Family* const family, FindFamily(reader));
  ASSIGN_OR_RETURN(const std::string architecture, ArchitectureFor(reader, *family, *task));
  if (architecture.empty()) return Parse(document, pointer);
  JsonDocument changed = document;
  changed.value.at(json::json_pointer(pointer))["architectures"] = json::array({architecture});
  ASSIGN_OR_RETURN(ModelConfig config, Parse(changed, pointer));
  config.other_head = true;
  return config;
}

absl::StatusOr<ModelConfig> ParseAgain(const ModelConfig& model, nlohmann::json config,
                                       const std::string& file, std::optional<ModelTask> task) {
  ASSIGN_OR_RETURN(ModelConfig parsed, ParseModelConfig({file, std::move(config), {}}, "", task));
  parsed.other_head |= model.other_head;
  parsed.untied |= model.untied;
  parsed.transformer.label_smoothing = model.transformer.label_smoothing;
  if (model.transformer.classifier) {
    parsed.transformer.classifier->problem = model.transformer.classifier->problem;
    parsed.transformer.classifier->labels_from_data =
        model.transformer.classifier->labels_from_data;
  }
  return parsed;
}

absl::StatusOr<ModelConfig> WithUntiedLogits(const ModelConfig& config) {
  const auto refuse = [&] {
    return absl::InvalidArgumentError(absl::StrCat(
        "the logits of a ", config.transformer.model_type, " cannot be untied from its embedding"));
  };
  // Both stacks share the embedding, too, and a T5's tied logits are scaled.
  if (config.transformer.encoder) return refuse();
  JsonDocument document;
  document.file = "config.json";
  document.value = config.original;
  document.value["tie_word_embeddings"] = false;
  ASSIGN_OR_RETURN(ModelConfig untied, Parse(document, ""));
  if (untied.transformer.tied || !untied.unsupported.empty()) return refuse();
  untied.warnings = config.warnings;
  untied.other_head = config.other_head;
  untied.untied = true;
  return untied;
}

ModelTask ModelConfig::task() const {
  if (resnet) return ModelTask::kClassifyImage;
  if (transformer.classifier) return ModelTask::kClassify;
  if (transformer.finds_spans) return ModelTask::kQuestionAnswering;
  return transformer.masked ? ModelTask::kMaskedLm : Families().at(transformer.model_type).task;
}

const ClassifierConfig* ModelConfig::classifier() const {
  if (resnet) return &resnet->classifier;
  return transformer.classifier ? &*transformer.classifier : nullptr;
}

namespace {

constexpr uint64_t kMostHeaderBytes = 16u << 20;  // a T5's header has kilobytes

// The JSON with the tensor names of the weights in a directory; "" if there is none.
std::string TensorNamesIn(const std::string& dir) {
  if (!CheckModelFile(dir, "model.safetensors").ok()) {
    return ReadModelFile(dir, "model.safetensors.index.json").value_or("");
  }
  std::ifstream weights(dir + "/model.safetensors", std::ios::binary);
  uint64_t bytes = 0;
  if (!weights.read(reinterpret_cast<char*>(&bytes), sizeof bytes)) return "";
  std::string header(std::min(bytes, kMostHeaderBytes), '\0');
  weights.read(header.data(), static_cast<std::streamsize>(header.size()));
  return header;
}

// Determines from the weights, if there are any, whether logits are tied. Configs are unreliable:
// transformers 5 writes that every T5 and mT5 is tied, and Google's mT5s say that they are not.
void SeeWhetherTied(const std::string& dir, json& config) {
  const auto says = [&](const char* key, const json& value) {
    return config.is_object() && config.value(key, json()) == value;
  };
  const bool unscaled_t5 = says("model_type", "t5") && says("tie_word_embeddings", true) &&
                           says("scale_decoder_outputs", false);
  if (!unscaled_t5 && !says("model_type", "mt5")) return;
  const std::string names = TensorNamesIn(dir);
  if (names.empty()) return;
  const bool has_head = absl::StrContains(names, "\"lm_head.weight\"");
  if (!unscaled_t5) {
    config["tie_word_embeddings"] = !has_head;
  } else if (!has_head) {
    config.erase("tie_word_embeddings");
  }
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& dir, std::optional<ModelTask> task) {
  ASSIGN_OR_RETURN(JsonDocument document, ReadModelJson(dir, "config.json"));
  SeeWhetherTied(dir, document.value);
  ASSIGN_OR_RETURN(ModelConfig config, ParseModelConfig(document, "", task));
  if (!config.unsupported.empty()) return absl::InvalidArgumentError(config.unsupported.front());
  return config;
}

PackedFormat QuantisedAs(const json& config) {
  const auto found = config.find("quantization_config");
  if (found == config.end() || !found->is_object()) return PackedFormat::kNone;
  const auto is = [&](const char* key, const json& value) {
    return found->value(key, json()) == value;
  };
  if (!is("quant_method", "bitsandbytes") && !is("quant_method", nullptr)) {
    return PackedFormat::kNone;
  }
  if (is("load_in_8bit", true)) return PackedFormat::kInt8;
  if (!is("load_in_4bit", true) || !is("bnb_4bit_quant_type", "nf4")) return PackedFormat::kNone;
  return is("bnb_4bit_use_double_quant", true) ? PackedFormat::kNf4Nested : PackedFormat::kNf4;
}

namespace {

void AddBuffers(const ResNetConfig& config, TensorNames& names) {
  for (const ResNetUnit& unit : UnitsOf(config)) {
    for (const BufferSpec& buffer : BuffersOf(unit)) {
      names.shapes[buffer.name] = {buffer.shape.begin(), buffer.shape.end()};
      if (buffer.whole) names.whole.insert(buffer.name);
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
  if (const Head* head = HeadOf(family, config)) {
    names.other_heads.assign(head->others.begin(), head->others.end());
    names.new_head.assign(head->own.begin(), head->own.end());
  } else if (config.other_head) {
    names.other_heads = family.others;
    names.new_head = family.own;
  }
  if (config.other_head) names.other_prefix = family.other_prefix;
  names.aliases = family.aliases;
  names.zeros.insert(family.zeros.begin(), family.zeros.end());
  for (const auto& [alias, name] : family.aliases) {
    if (family.repeats) names.repeats.insert(alias);
  }
  const TransformerNames& ours = config.transformer.names;
  if (config.transformer.masked && !ours.other_logits_bias.empty()) {
    names.aliases[ours.other_logits_bias] = ours.logits_bias;
    names.repeats.insert(ours.other_logits_bias);
  }
  if (config.shape.has_logits()) names.head = ours.logits;
  if (config.transformer.tied) names.tied_to = config.transformer.names.tokens;
  if (config.untied) names.untied_from = config.transformer.names.tokens;
  return names;
}

std::set<std::string> ParametersByToken(const TransformerConfig& config) {
  std::set<std::string> names = {config.names.tokens};
  if (config.classifier || config.finds_spans) return names;
  if (!config.tied) names.insert(config.names.logits);
  if (config.masked) names.insert(config.names.logits_bias);
  return names;
}

json ExportedConfig(const ModelConfig& config) {
  json out = config.original;
  // transformers would use GPT-2's own 50256 for these, which this vocabulary may lack.
  if (config.transformer.model_type == "gpt2" && config.transformer.vocabulary <= 50256) {
    for (const char* token : {"bos_token_id", "eos_token_id"}) {
      if (!out.contains(token)) out[token] = nullptr;
    }
  }
  const Family& family = Families().at(config.transformer.model_type);
  const Head* const head = HeadOf(family, config);
  if (head == nullptr) {
    // The given one may be the model's without its head.
    json& said = out["architectures"];
    if (!said.is_array() || said.empty()) said = json::array({family.architectures.front()});
  } else if (!absl::c_linear_search(out.value("architectures", json::array()),
                                    json(head->architecture))) {
    out["architectures"] = json::array({head->architecture});
  }
  out.erase("quantization_config");  // exports are not quantised
  const ClassifierConfig* const classifier = config.classifier();
  if (classifier != nullptr && classifier->problem && !classifier->of_tokens) {
    out["problem_type"] = ProblemName(*classifier->problem);
  }
  return out;
}

}  // namespace spillway
