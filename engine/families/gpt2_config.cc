#include "engine/families/gpt2_config.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "io/base/check.h"

namespace spillway {
namespace {

using nlohmann::json;

// Far above any model, far below what could overflow a byte count.
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxPositions = int64_t{1} << 24;
constexpr int64_t kMaxWidth = int64_t{1} << 17;
constexpr int64_t kMaxInner = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 10000;

// transformers' names (activations.py). prelu and xielu bring parameters of their
// own, which no GPT-2 file has.
const std::map<std::string, Activation>& Activations() {
  static const auto& names = *new std::map<std::string, Activation>{
      {"gelu", Activation::kGelu},
      {"gelu_python", Activation::kGelu},
      {"gelu_10", Activation::kGelu10},
      {"gelu_accurate", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh},
      {"gelu_new", Activation::kGeluTanh},
      {"gelu_python_tanh", Activation::kGeluTanh},
      {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"hardswish", Activation::kHardswish},
      {"laplace", Activation::kLaplace},
      {"leaky_relu", Activation::kLeakyRelu},
      {"linear", Activation::kLinear},
      {"mish", Activation::kMish},
      {"quick_gelu", Activation::kQuickGelu},
      {"relu", Activation::kRelu},
      {"relu2", Activation::kRelu2},
      {"relu6", Activation::kRelu6},
      {"sigmoid", Activation::kSigmoid},
      {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},
      {"tanh", Activation::kTanh},
  };
  return names;
}

// Keys of any transformers config that cannot change GPT-2's logits: generation
// defaults, bookkeeping, other heads.
bool IsMetadata(const std::string& key) {
  static const auto& keys = *new std::set<std::string>{"_attn_implementation",
                                                       "_attn_implementation_autoset",
                                                       "_name_or_path",
                                                       "_num_labels",
                                                       "attn_implementation",
                                                       "bad_words_ids",
                                                       "begin_suppress_tokens",
                                                       "bos_token_id",
                                                       "chunk_size_feed_forward",
                                                       "cross_attention_hidden_size",
                                                       "decoder_start_token_id",
                                                       "diversity_penalty",
                                                       "do_sample",
                                                       "dtype",
                                                       "early_stopping",
                                                       "encoder_no_repeat_ngram_size",
                                                       "eos_token_id",
                                                       "exponential_decay_length_penalty",
                                                       "finetuning_task",
                                                       "forced_bos_token_id",
                                                       "forced_eos_token_id",
                                                       "gradient_checkpointing",
                                                       "id2label",
                                                       "is_decoder",
                                                       "label2id",
                                                       "length_penalty",
                                                       "max_length",
                                                       "min_length",
                                                       "name_or_path",
                                                       "no_repeat_ngram_size",
                                                       "num_beam_groups",
                                                       "num_beams",
                                                       "num_labels",
                                                       "num_return_sequences",
                                                       "output_attentions",
                                                       "output_hidden_states",
                                                       "output_past",
                                                       "output_scores",
                                                       "pad_token_id",
                                                       "prefix",
                                                       "problem_type",
                                                       "remove_invalid_values",
                                                       "repetition_penalty",
                                                       "return_dict",
                                                       "return_dict_in_generate",
                                                       "sep_token_id",
                                                       "suppress_tokens",
                                                       "task_specific_params",
                                                       "temperature",
                                                       "tf_legacy_loss",
                                                       "tie_encoder_decoder",
                                                       "tokenizer_class",
                                                       "top_k",
                                                       "top_p",
                                                       "torch_dtype",
                                                       "torchscript",
                                                       "transformers_version",
                                                       "typical_p",
                                                       "use_bfloat16",
                                                       "use_cache"};
  return keys.count(key) > 0 || absl::StartsWith(key, "summary_");
}

// Collects the first error, so that the list of keys below reads as a list.
class Reader {
 public:
  explicit Reader(const JsonDocument& document) : document_(document), object_(document.value) {}

  const absl::Status& status() const { return status_; }
  const std::set<std::string>& known() const { return known_; }

  // `alias`: the name under which transformers takes the same value, or "".
  void Integer(const char* key, const char* alias, int64_t high, int64_t* value) {
    const json* found = Find(key, alias);
    if (found == nullptr) return;
    const bool fits = found->is_number_integer() &&
                      (!found->is_number_unsigned() ||
                       found->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
    if (!fits || found->get<int64_t>() < 1 || found->get<int64_t>() > high) {
      return Refuse(key, *found, absl::StrCat("an integer from 1 to ", high));
    }
    *value = found->get<int64_t>();
  }

  void Number(const char* key, double low, double high, const char* range, double* value) {
    const json* found = Find(key, "");
    if (found == nullptr) return;
    const double number = found->is_number() ? found->get<double>() : -1;
    if (!found->is_number() || !(number >= low) || !(number < high)) {
      return Refuse(key, *found, range);
    }
    *value = number;
  }

  void Probability(const char* key, double* value) {
    Number(key, 0, 1, "a number of at least 0 and less than 1", value);
  }

  void Boolean(const char* key, bool* value) {
    const json* found = Find(key, "");
    if (found == nullptr) return;
    if (!found->is_boolean()) return Refuse(key, *found, "true or false");
    *value = found->get<bool>();
  }

  // A key that would change the model in a way that is not built here.
  void MustBeOff(const char* key, const char* what) {
    const json* found = Find(key, "");
    if (found == nullptr || found->is_null() || *found == json(false) ||
        (found->is_structured() && found->empty())) {
      return;
    }
    Fail(key, absl::StrCat(key, " is set (", Shown(*found), "): ", what, " is not supported"));
  }

  const json* Find(const char* key, const char* alias) {
    known_.insert(key);
    auto first = object_.find(key);
    if (*alias == '\0') return first == object_.end() ? nullptr : &*first;
    known_.insert(alias);
    auto second = object_.find(alias);
    if (first == object_.end()) return second == object_.end() ? nullptr : &*second;
    if (second != object_.end() && *first != *second) {
      Fail(key, absl::StrCat(key, " is ", Shown(*first), ", but ", alias,
                             ", another name for it, is ", Shown(*second)));
    }
    return &*first;
  }

  void Refuse(const char* key, const json& value, const std::string& expected) {
    Fail(key, absl::StrCat(key, " is ", Shown(value), "; expected ", expected));
  }

  void Fail(absl::string_view key, const std::string& message) {
    if (!status_.ok()) return;
    const std::string where = document_.Where(JsonPointerTo("", key));
    status_ = absl::InvalidArgumentError(absl::StrCat(where, ": ", message));
  }

  // Short, whatever the file holds.
  static std::string Shown(const json& value) {
    const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() <= 80) return text;
    return absl::StrCat(text.substr(0, 77), "...");
  }

 private:
  const JsonDocument& document_;
  const json& object_;
  absl::Status status_;
  std::set<std::string> known_;
};

void CheckFamily(Reader& reader) {
  const json* type = reader.Find("model_type", "");
  if (type == nullptr || *type != json("gpt2")) {
    const std::string shown = type == nullptr ? "missing" : Reader::Shown(*type);
    return reader.Fail("model_type",
                       absl::StrCat("model_type is ", shown, "; supported model types: \"gpt2\""));
  }
  const json* architectures = reader.Find("architectures", "");
  if (architectures == nullptr || architectures->is_null()) return;
  for (const json& name : *architectures) {
    // GPT2Model: the same tensors without the head, which is tied.
    if (name == json("GPT2LMHeadModel") || name == json("GPT2Model")) continue;
    return reader.Fail("architectures",
                       absl::StrCat("architectures has ", Reader::Shown(name),
                                    "; supported architectures: \"GPT2LMHeadModel\", "
                                    "\"GPT2Model\""));
  }
}

void ReadActivation(Reader& reader, Activation* activation) {
  const json* found = reader.Find("activation_function", "");
  if (found == nullptr) return;
  if (found->is_string()) {
    auto known = Activations().find(found->get<std::string>());
    if (known != Activations().end()) {
      *activation = known->second;
      return;
    }
  }
  reader.Refuse("activation_function", *found,
                absl::StrCat("one of ", absl::StrJoin(Activations(), ", ",
                                                      [](std::string* out, const auto& entry) {
                                                        absl::StrAppend(out, entry.first);
                                                      })));
}

}  // namespace

ModelShape Gpt2Config::Shape() const {
  ModelShape shape;
  shape.model_type = "gpt2";
  shape.exact = true;
  shape.vocabulary = vocab_size;
  shape.hidden = n_embd;
  shape.layers = n_layer;
  shape.heads = shape.key_value_heads = n_head;
  shape.head_size = head_size();
  shape.intermediate = n_inner;
  shape.positions = n_positions;
  shape.tied = tie_word_embeddings;
  DescribeGpt2Units(shape);
  return shape;
}

int64_t Gpt2Config::parameter_count() const {
  ModelShape shape = Shape();
  SPILLWAY_CHECK(LayOutParameters(shape.model).ok());
  return static_cast<int64_t>(shape.model.parameter_count());
}

absl::StatusOr<Gpt2Config> ParseGpt2Config(const JsonDocument& document) {
  const json& object = document.value;
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(document.file, ": not a JSON object"));
  }
  Gpt2Config config;
  Reader reader(document);
  CheckFamily(reader);
  reader.MustBeOff("add_cross_attention", "cross-attention");
  reader.MustBeOff("is_encoder_decoder", "an encoder-decoder model");
  reader.MustBeOff("per_layer_config", "a model whose layers differ");
  reader.MustBeOff("pruned_heads", "a model with pruned heads");
  reader.MustBeOff("quantization_config", "training quantized weights");

  reader.Integer("vocab_size", "", kMaxVocab, &config.vocab_size);
  reader.Integer("n_positions", "max_position_embeddings", kMaxPositions, &config.n_positions);
  reader.Integer("n_embd", "hidden_size", kMaxWidth, &config.n_embd);
  reader.Integer("n_layer", "num_hidden_layers", kMaxLayers, &config.n_layer);
  reader.Integer("n_head", "num_attention_heads", kMaxWidth, &config.n_head);
  config.n_inner = 4 * config.n_embd;
  const json* inner = reader.Find("n_inner", "");
  if (inner != nullptr && !inner->is_null()) {
    reader.Integer("n_inner", "", kMaxInner, &config.n_inner);
  }
  ReadActivation(reader, &config.activation);
  reader.Probability("resid_pdrop", &config.resid_pdrop);
  reader.Probability("embd_pdrop", &config.embd_pdrop);
  reader.Probability("attn_pdrop", &config.attn_pdrop);
  // The least positive value, because an epsilon of 0 divides by the variance alone.
  reader.Number("layer_norm_epsilon", std::numeric_limits<double>::min(), 1,
                "a number above 0 and less than 1", &config.layer_norm_epsilon);
  reader.Number("initializer_range", 0, 1000, "a number from 0 to 1000", &config.initializer_range);
  reader.Boolean("scale_attn_weights", &config.scale_attn_weights);
  reader.Boolean("scale_attn_by_inverse_layer_idx", &config.scale_attn_by_inverse_layer_idx);
  reader.Boolean("reorder_and_upcast_attn", &config.reorder_and_upcast_attn);
  reader.Boolean("tie_word_embeddings", &config.tie_word_embeddings);
  const json* context = reader.Find("n_ctx", "");
  if (!reader.status().ok()) return reader.status();

  if (config.n_embd % config.n_head != 0) {
    return absl::InvalidArgumentError(absl::StrCat(document.Where("/n_embd"), ": n_embd ",
                                                   config.n_embd, " is not divisible by n_head ",
                                                   config.n_head));
  }
  if (context != nullptr && *context != json(config.n_positions)) {
    config.warnings.push_back(absl::StrCat(document.Where("/n_ctx"), ": n_ctx ",
                                           Reader::Shown(*context), " is ignored; n_positions ",
                                           config.n_positions, " is the longest sequence"));
  }
  for (const auto& [key, value] : object.items()) {
    if (reader.known().count(key) > 0 || IsMetadata(key)) continue;
    config.warnings.push_back(absl::StrCat(document.Where(JsonPointerTo("", key)), ": key ",
                                           Reader::Shown(json(key)), " is unknown and ignored"));
  }
  config.original = object;
  return config;
}

absl::StatusOr<Gpt2Config> ReadGpt2Config(const std::string& dir) {
  absl::StatusOr<JsonDocument> document = ReadStrictJson(dir + "/config.json");
  if (!document.ok()) return document.status();
  return ParseGpt2Config(*document);
}

json Gpt2ConfigJson(const Gpt2Config& config, DType dtype) {
  json out = config.original;
  if (!out.is_object()) {
    std::string activation = "gelu_new";
    for (const auto& [name, value] : Activations()) {
      if (value == config.activation && value != Activation::kGeluTanh) activation = name;
    }
    out = json{{"activation_function", activation},
               {"attn_pdrop", config.attn_pdrop},
               {"embd_pdrop", config.embd_pdrop},
               {"initializer_range", config.initializer_range},
               {"layer_norm_epsilon", config.layer_norm_epsilon},
               {"n_embd", config.n_embd},
               {"n_head", config.n_head},
               {"n_inner", config.n_inner},
               {"n_layer", config.n_layer},
               {"n_positions", config.n_positions},
               {"reorder_and_upcast_attn", config.reorder_and_upcast_attn},
               {"resid_pdrop", config.resid_pdrop},
               {"scale_attn_by_inverse_layer_idx", config.scale_attn_by_inverse_layer_idx},
               {"scale_attn_weights", config.scale_attn_weights},
               {"tie_word_embeddings", config.tie_word_embeddings},
               {"vocab_size", config.vocab_size}};
  }
  // transformers would take GPT-2's own 50256 for them, which this vocabulary may not have.
  for (const char* token : {"bos_token_id", "eos_token_id"}) {
    if (!out.contains(token) && config.vocab_size <= 50256) out[token] = nullptr;
  }
  out["model_type"] = "gpt2";
  out["architectures"] = json::array({"GPT2LMHeadModel"});
  const char* name = dtype == DType::kFloat32    ? "float32"
                     : dtype == DType::kBFloat16 ? "bfloat16"
                                                 : "float16";
  out["torch_dtype"] = name;  // until transformers 4.55
  out["dtype"] = name;        // since
  return out;
}

}  // namespace spillway
