#include "engine/families/config_reader.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace spillway {
namespace {

using nlohmann::json;

// Keys of transformers configs that cannot change the logits: generation defaults, book-keeping,
// other heads.
constexpr absl::string_view kMetadata =
    "_attn_implementation _attn_implementation_autoset _name_or_path _num_labels architectures "
    "attn_implementation auto_map bad_words_ids begin_suppress_tokens bos_token_id "
    "chunk_size_feed_forward classifier_dropout cross_attention_hidden_size decoder_start_token_id "
    "diversity_penalty do_sample dtype early_stopping encoder_no_repeat_ngram_size eos_token_id "
    "exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id "
    "gradient_checkpointing id2label is_decoder label2id length_penalty max_length min_length "
    "model_type name_or_path no_repeat_ngram_size num_beam_groups num_beams num_labels "
    "num_return_sequences output_attentions output_hidden_states output_past output_scores "
    "pad_token_id prefix pretraining_tp problem_type remove_invalid_values repetition_penalty "
    "return_dict return_dict_in_generate sep_token_id suppress_tokens task_specific_params "
    "temperature tf_legacy_loss tie_encoder_decoder tie_weights_ tokenizer_class top_k top_p "
    "torch_dtype torchscript transformers_version typical_p use_bfloat16 use_cache";

bool IsMetadata(const std::string& key) {
  static const auto& keys = *new std::set<std::string>(absl::StrSplit(kMetadata, ' '));
  return keys.count(key) > 0 || absl::StartsWith(key, "summary_");
}

}  // namespace

ConfigReader::ConfigReader(const JsonDocument& document, std::string pointer, bool names_may_differ)
    : document_(document),
      object_(document.value.at(json::json_pointer(pointer))),
      pointer_(std::move(pointer)),
      names_may_differ_(names_may_differ) {}

std::vector<std::string> ConfigReader::Warnings() const {
  std::vector<std::string> lines = warnings_;
  for (const auto& [key, value] : object_.items()) {
    if (known_.count(key) > 0 || IsMetadata(key)) continue;
    lines.push_back(
        absl::StrCat(Where(key), ": key ", Shown(json(key)), " is unknown and ignored"));
  }
  return lines;
}

void ConfigReader::Integer(const Keys& keys, int64_t high, int64_t* value) {
  const char* key = nullptr;
  const json* found = Find(keys, &key);
  if (found == nullptr) return;
  const bool fits = found->is_number_integer() &&
                    (!found->is_number_unsigned() ||
                     found->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (!fits || found->get<int64_t>() < 1 || found->get<int64_t>() > high) {
    return Refuse(key, *found, absl::StrCat("an integer from 1 to ", high));
  }
  *value = found->get<int64_t>();
}

void ConfigReader::Required(const Keys& keys, int64_t high, int64_t* value) {
  if (!Has(keys)) {
    Fail("", absl::StrCat("there is no ", absl::StrJoin(keys, ", nor "),
                          "; a model's shape needs hidden size, layers, heads and vocabulary"));
  }
  Integer(keys, high, value);
}

void ConfigReader::Number(const Keys& keys, double low, double high, const char* range,
                          double* value) {
  const char* key = nullptr;
  const json* found = Find(keys, &key);
  if (found == nullptr) return;
  const double number = found->is_number() ? found->get<double>() : 0;
  if (!found->is_number() || !(number >= low) || !(number < high)) {
    return Refuse(key, *found, range);
  }
  *value = number;
}

void ConfigReader::Positive(const Keys& keys, double high, double* value) {
  const std::string range = absl::StrCat("a number above 0 and less than ", high);
  Number(keys, std::numeric_limits<double>::min(), high, range.c_str(), value);
}

void ConfigReader::Probability(const Keys& keys, double* value) {
  Number(keys, 0, 1, "a number of at least 0 and less than 1", value);
}

void ConfigReader::Boolean(const Keys& keys, bool* value) {
  const char* key = nullptr;
  const json* found = Find(keys, &key);
  if (found == nullptr) return;
  if (!found->is_boolean()) return Refuse(key, *found, "true or false");
  *value = found->get<bool>();
}

std::string ConfigReader::Text(const char* key) {
  const json* found = Find({key});
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

void ConfigReader::MustBeOff(const char* key, const char* what) {
  const json* found = Find({key});
  if (found == nullptr || *found == json(false) || (found->is_structured() && found->empty())) {
    return;
  }
  Unsupported(key, absl::StrCat(key, " is set (", Shown(*found), "): ", what, " is not supported"));
}

const json* ConfigReader::Find(const Keys& keys, const char** found_key) {
  const json* first = nullptr;
  const char* first_key = nullptr;
  for (const char* key : keys) {
    known_.insert(key);
    const auto found = object_.find(key);
    if (found == object_.end() || found->is_null()) continue;
    if (first == nullptr) {
      first = &*found;
      first_key = key;
    } else if (*first != *found && !names_may_differ_) {
      Fail(first_key, absl::StrCat(first_key, " is ", Shown(*first), ", but ", key,
                                   ", another name for it, is ", Shown(*found)));
    }
  }
  if (found_key != nullptr) *found_key = first_key;
  return first;
}

bool ConfigReader::IsNull(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && found->is_null();
}

ConfigReader ConfigReader::Inside(const std::string& key) const {
  return ConfigReader(document_, JsonPointerTo(pointer_, key));
}

void ConfigReader::Absorb(const ConfigReader& inner) {
  status_.Update(inner.status_);
  unsupported_.insert(unsupported_.end(), inner.unsupported_.begin(), inner.unsupported_.end());
  const std::vector<std::string> warnings = inner.Warnings();
  warnings_.insert(warnings_.end(), warnings.begin(), warnings.end());
}

void ConfigReader::Refuse(const char* key, const json& value, const std::string& expected) {
  Fail(key, absl::StrCat(key, " is ", Shown(value), "; expected ", expected));
}

void ConfigReader::Fail(absl::string_view key, const std::string& message) {
  status_.Update(absl::InvalidArgumentError(absl::StrCat(Where(key), ": ", message)));
}

void ConfigReader::Unsupported(absl::string_view key, const std::string& message) {
  unsupported_.push_back(absl::StrCat(Where(key), ": ", message));
}

void ConfigReader::Warn(absl::string_view key, const std::string& message) {
  warnings_.push_back(absl::StrCat(Where(key), ": ", message));
}

std::string ConfigReader::Where(absl::string_view key) const {
  return document_.Where(key.empty() ? pointer_ : JsonPointerTo(pointer_, key));
}

std::string ConfigReader::Shown(const json& value) {
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= 80 ? text : absl::StrCat(text.substr(0, 77), "...");
}

}  // namespace spillway
