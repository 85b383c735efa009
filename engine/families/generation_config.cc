#include "engine/families/generation_config.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/nearest.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr const char* kReadKeys[] = {"do_sample",
                                     "temperature",
                                     "top_p",
                                     "top_k",
                                     "repetition_penalty",
                                     "no_repeat_ngram_size",
                                     "min_new_tokens",
                                     "min_length",
                                     "max_new_tokens",
                                     "eos_token_id",
                                     "num_beams",
                                     "length_penalty",
                                     "early_stopping",
                                     "max_length",
                                     "forced_bos_token_id",
                                     "forced_eos_token_id",
                                     "encoder_no_repeat_ngram_size",
                                     "suppress_tokens",
                                     "begin_suppress_tokens",
                                     "decoder_start_token_id",
                                     "forced_decoder_ids",
                                     "is_multilingual",
                                     "no_timestamps_token_id",
                                     "language",
                                     "task",
                                     "return_timestamps",
                                     "max_initial_timestamp_index"};

// Keys that do not change the tokens, or only together with others: caches, return values.
constexpr const char* kWithoutEffect[] = {"_from_model_config",
                                          "alignment_heads",
                                          "assistant_confidence_threshold",
                                          "assistant_early_exit",
                                          "assistant_ensemble_weight",
                                          "assistant_lookbehind",
                                          "begin_suppress_tokens_at",
                                          "bos_token_id",
                                          "cache_config",
                                          "cache_implementation",
                                          "chat_format",
                                          "compile_config",
                                          "continuous_batching_config",
                                          "disable_compile",
                                          "is_assistant",
                                          "lang_to_id",
                                          "low_memory",
                                          "max_cache_len",
                                          "max_matching_ngram_size",
                                          "max_window_size",
                                          "num_assistant_tokens",
                                          "num_assistant_tokens_schedule",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_logits",
                                          "output_scores",
                                          "pad_token_id",
                                          "prefill_chunk_size",
                                          "prev_sot_token_id",
                                          "prompt_lookup_num_tokens",
                                          "remove_invalid_values",
                                          "return_dict_in_generate",
                                          "speculation_type",
                                          "target_lookbehind",
                                          "task_to_id",
                                          "transformers_version",
                                          "use_cache",
                                          "use_mtp"};

// A key that does not change the tokens only if it has this value.
struct Neutral {
  const char* key;
  double value;
};
constexpr Neutral kOff[] = {{"bad_words_ids", 0},
                            {"constraints", 0},
                            {"diversity_penalty", 0},
                            {"dola_layers", 0},
                            {"encoder_repetition_penalty", 1},
                            {"epsilon_cutoff", 0},
                            {"eta_cutoff", 0},
                            {"exponential_decay_length_penalty", 0},
                            {"force_words_ids", 0},
                            {"guidance_scale", 1},
                            {"max_time", -1},
                            {"min_p", 0},
                            {"num_beam_groups", 1},
                            {"num_return_sequences", 1},
                            {"penalty_alpha", 0},
                            {"renormalize_logits", 0},
                            {"sequence_bias", 0},
                            {"stop_strings", 0},
                            {"token_healing", 0},
                            {"top_h", 1},
                            {"typical_p", 1},
                            {"watermarking_config", 0}};

bool IsOff(const json& value, double neutral) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_structured()) return value.empty();
  return value.is_number() && value.get<double>() == neutral;
}

class GenerationKeys {
 public:
  explicit GenerationKeys(const JsonDocument& document) : document_(document) {}

  const json* Find(const char* key) const {
    const auto found = document_.value.find(key);
    return found == document_.value.end() || found->is_null() ? nullptr : &*found;
  }

  void Number(const char* key, double low, double high, const char* range,
              std::optional<double>* value) {
    const json* const found = Find(key);
    if (found == nullptr) return;
    const double number = found->is_number() ? found->get<double>() : -1;
    if (!(number >= low && number <= high)) return Refuse(key, range);
    *value = number;
  }

  void Count(const char* key, int64_t low, std::optional<int64_t>* value) {
    const json* const found = Find(key);
    if (found == nullptr) return;
    constexpr double kMost = 1e15;
    const bool whole = found->is_number_integer() && found->get<double>() <= kMost;
    if (!whole || found->get<int64_t>() < low) {
      return Refuse(key, absl::StrCat("a whole number of at least ", low));
    }
    *value = found->get<int64_t>();
  }

  void Tokens(const char* key, std::vector<int64_t>* tokens) {
    const json* const found = Find(key);
    if (found == nullptr) return;
    const json list = found->is_array() ? *found : json::array({*found});
    for (const json& one : list) {
      if (!one.is_number_unsigned() || one.get<uint64_t>() > std::numeric_limits<int32_t>::max()) {
        return Refuse(key, "a token's number, or a list of them");
      }
      tokens->push_back(one.get<int64_t>());
    }
  }

  // Reads one token; several are reported as unsupported.
  void Token(const char* key, std::optional<int64_t>* token) {
    std::vector<int64_t> tokens;
    Tokens(key, &tokens);
    if (!tokens.empty()) *token = tokens.front();
    if (tokens.size() > 1) Unsupported(key);
  }

  void Flag(const char* key, std::optional<bool>* value) {
    const json* const found = Find(key);
    if (found == nullptr) return;
    if (!found->is_boolean()) return Refuse(key, "true or false");
    *value = found->get<bool>();
  }

  // Reads [[position, token or null], ...].
  void Pairs(const char* key, std::map<int64_t, int64_t>* tokens) {
    const json* const found = Find(key);
    if (found == nullptr) return;
    constexpr absl::string_view kPairs = "a list of positions and tokens, [[1, 50259], [2, null]]";
    if (!found->is_array()) return Refuse(key, kPairs);
    for (const json& pair : *found) {
      const auto whole = [](const json& value) {
        return value.is_number_unsigned() &&
               value.get<uint64_t>() <= std::numeric_limits<int32_t>::max();
      };
      if (!pair.is_array() || pair.size() != 2 || !whole(pair[0]) ||
          !(whole(pair[1]) || pair[1].is_null())) {
        return Refuse(key, kPairs);
      }
      (*tokens)[pair[0].get<int64_t>()] = pair[1].is_null() ? -1 : pair[1].get<int64_t>();
    }
  }

  void Text(const char* key, std::string* text) {
    const json* const found = Find(key);
    if (found == nullptr) return;
    if (!found->is_string()) return Refuse(key, "a text");
    *text = found->get<std::string>();
  }

  void Stopping(std::optional<EarlyStopping>* value) {
    const json* const found = Find("early_stopping");
    if (found == nullptr) return;
    if (*found == json("never")) {
      *value = EarlyStopping::kNever;
    } else if (found->is_boolean()) {
      *value = found->get<bool>() ? EarlyStopping::kYes : EarlyStopping::kNo;
    } else {
      Refuse("early_stopping", "true, false or \"never\"");
    }
  }

  std::string Where(const std::string& key) const {
    return document_.Where(JsonPointerTo("", key));
  }

  void Refuse(const char* key, absl::string_view expected) {
    status_.Update(
        absl::InvalidArgumentError(absl::StrCat(Where(key), ": ", key, " is not ", expected)));
  }

  void Unsupported(const char* key) {
    status_.Update(absl::InvalidArgumentError(
        absl::StrCat(Where(key), ": ", key,
                     " would change the tokens and is not supported: take the key out, or say "
                     "--generation-config none (or a FILE without it)")));
  }

  const absl::Status& status() const { return status_; }

 private:
  const JsonDocument& document_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<GenerationConfig> ParseGenerationConfig(const JsonDocument& document) {
  if (!document.value.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(document.file, ": this is no JSON object"));
  }
  GenerationConfig config;
  GenerationKeys keys(document);
  keys.Flag("do_sample", &config.do_sample);
  keys.Number("temperature", 0, 1e6, "a number of at least 0", &config.temperature);
  keys.Number("top_p", 0, 1, "a number from 0 to 1", &config.top_p);
  keys.Number("repetition_penalty", 1e-6, 1e6, "a number above 0", &config.repetition_penalty);
  keys.Count("top_k", 0, &config.top_k);
  keys.Count("no_repeat_ngram_size", 0, &config.no_repeat_ngram);
  keys.Count("min_new_tokens", 0, &config.min_new_tokens);
  keys.Count("min_length", 0, &config.min_length);
  keys.Count("max_new_tokens", 1, &config.max_new_tokens);
  keys.Count("max_length", 1, &config.max_length);
  keys.Count("num_beams", 1, &config.num_beams);
  keys.Count("encoder_no_repeat_ngram_size", 0, &config.source_no_repeat_ngram);
  keys.Number("length_penalty", -1e3, 1e3, "a number from -1000 to 1000", &config.length_penalty);
  keys.Stopping(&config.early_stopping);
  keys.Token("forced_bos_token_id", &config.forced_first);
  keys.Token("forced_eos_token_id", &config.forced_last);
  keys.Tokens("eos_token_id", &config.ends);
  keys.Tokens("suppress_tokens", &config.suppressed);
  keys.Tokens("begin_suppress_tokens", &config.suppressed_first);
  keys.Text("language", &config.language);
  keys.Text("task", &config.task);
  if (!config.task.empty() && config.task != "transcribe" && config.task != "translate") {
    keys.Refuse("task", "transcribe or translate");
  }
  keys.Pairs("forced_decoder_ids", &config.forced_decoder);
  keys.Token("decoder_start_token_id", &config.start_token);
  keys.Token("no_timestamps_token_id", &config.no_timestamps);
  keys.Flag("is_multilingual", &config.multilingual);
  keys.Count("max_initial_timestamp_index", 0, &config.max_initial_timestamp);
  if (const json* const found = keys.Find("return_timestamps"); found != nullptr) {
    config.timestamps = found->is_boolean() && found->get<bool>();
  }
  std::vector<std::string> known(std::begin(kReadKeys), std::end(kReadKeys));
  known.insert(known.end(), std::begin(kWithoutEffect), std::end(kWithoutEffect));
  for (const Neutral& off : kOff) {
    known.push_back(off.key);
    const json* const found = keys.Find(off.key);
    if (found != nullptr && !IsOff(*found, off.value)) keys.Unsupported(off.key);
  }
  RETURN_IF_ERROR(keys.status());
  for (const auto& item : document.value.items()) {
    if (item.value().is_null()) continue;
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    const std::string key = item.key().substr(0, 60);
    config.warnings.push_back(absl::StrCat(keys.Where(item.key()), ": key \"", key,
                                           "\" is unknown and ignored", DidYouMean(key, known)));
  }
  return config;
}

absl::StatusOr<GenerationConfig> ParseOldGenerationConfig(JsonDocument model_config) {
  json told = json::object();
  const auto take = [&](const char* key) {
    const auto found = model_config.value.find(key);
    if (found != model_config.value.end()) told[key] = *found;
  };
  if (model_config.value.is_object()) {
    for (const char* key : kReadKeys) take(key);
    for (const Neutral& off : kOff) take(off.key);
  }
  model_config.value = std::move(told);
  return ParseGenerationConfig(model_config);
}

std::optional<json> GenerationConfigWithEnds(const json& given, const json& config,
                                             const std::vector<int64_t>& ends) {
  json out = given;
  if (given.is_null()) {
    out = json::object();
    const auto take = [&](const char* key) {
      const auto found = config.find(key);
      if (found != config.end() && !found->is_null()) out[key] = *found;
    };
    for (const char* key : kReadKeys) take(key);
    for (const Neutral& off : kOff) take(off.key);
    for (const char* key : {"bos_token_id", "pad_token_id"}) take(key);
  }
  const json named = out.value("eos_token_id", json());
  const json before = named.is_array() ? named : json::array({named});
  const auto has = [](const auto& list, const json& token) {
    return std::find(list.begin(), list.end(), token) != list.end();
  };
  std::vector<json> all(ends.begin(), ends.end());
  if (std::all_of(all.begin(), all.end(), [&](const json& end) { return has(before, end); })) {
    return std::nullopt;
  }
  for (const json& token : before) {
    if (!token.is_null() && !has(all, token)) all.push_back(token);
  }
  out["eos_token_id"] = all.size() == 1 ? all.front() : json(all);
  return out;
}

SamplingOptions SamplingOf(const SamplingFlags& flags, const GenerationConfig& config,
                           double temperature) {
  SamplingOptions options;
  options.seed = flags.seed;
  if (config.do_sample) temperature = *config.do_sample ? config.temperature.value_or(1) : 0;
  if (!config.do_sample) temperature = config.temperature.value_or(temperature);
  options.beams = flags.beams.value_or(config.num_beams.value_or(1));
  if (options.beams > 1 && !config.do_sample.value_or(false)) temperature = 0;
  options.temperature = flags.temperature.value_or(temperature);
  options.top_k = flags.top_k.value_or(config.top_k.value_or(options.top_k));
  options.top_p = flags.top_p.value_or(config.top_p.value_or(options.top_p));
  options.repetition_penalty = flags.repetition_penalty.value_or(
      config.repetition_penalty.value_or(options.repetition_penalty));
  options.no_repeat_ngram =
      flags.no_repeat_ngram.value_or(config.no_repeat_ngram.value_or(options.no_repeat_ngram));
  options.min_tokens = flags.min_tokens.value_or(config.min_new_tokens.value_or(0));
  // transformers' min_new_tokens overrides min_length.
  if (!flags.min_tokens && !config.min_new_tokens) {
    options.min_length = config.min_length.value_or(0);
  }
  options.ends = config.ends;
  options.source_no_repeat_ngram = config.source_no_repeat_ngram.value_or(0);
  options.suppressed = config.suppressed;
  options.suppressed_first = config.suppressed_first;
  options.forced_first = config.forced_first.value_or(-1);
  options.forced_last = config.forced_last.value_or(-1);
  options.length_penalty = flags.length_penalty.value_or(config.length_penalty.value_or(1));
  options.early_stopping =
      flags.early_stopping.value_or(config.early_stopping.value_or(EarlyStopping::kNo));
  return options;
}

}  // namespace spillway
