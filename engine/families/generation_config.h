// generation_config.json: how the model's makers want texts to be continued.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/strict_json.h"
#include "engine/options/sampling_options.h"

namespace spillway {

// What the file says; nothing where a key is missing or null.
struct GenerationConfig {
  std::optional<bool> do_sample;
  std::optional<double> temperature, top_p, repetition_penalty;
  std::optional<int64_t> top_k, no_repeat_ngram, min_new_tokens, min_length, max_new_tokens;
  std::optional<int64_t> num_beams, source_no_repeat_ngram, forced_first, forced_last;
  std::optional<int64_t> max_length;  // with the prompt
  std::optional<double> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  std::vector<int64_t> ends;  // eos_token_id, one or several
  std::vector<int64_t> suppressed, suppressed_first;
  // Of speech.
  std::string language;  // a code, or its token
  std::string task;      // "transcribe", "translate"
  std::optional<bool> timestamps;
  std::optional<int64_t> max_initial_timestamp;  // from the time 0 on
  // What older files say in place of `language` and `task`: tokens by their positions; -1: any.
  std::map<int64_t, int64_t> forced_decoder;
  // Of a model with an encoder; as its config.json has them, or the command is refused.
  std::optional<int64_t> start_token, no_timestamps;
  std::optional<bool> multilingual;
  std::vector<std::string> warnings;  // "FILE:LINE: ...": keys that nobody knows
};

// kInvalidArgument, "FILE:LINE: ...", for values that make no sense, and for keys of transformers
// that would change the tokens and are not built here, unless their value changes nothing.
absl::StatusOr<GenerationConfig> ParseGenerationConfig(const JsonDocument& document);

// The same of a config.json, where models made before there was a generation_config.json say such
// things: its other keys are passed over.
absl::StatusOr<GenerationConfig> ParseOldGenerationConfig(JsonDocument model_config);

// The generation config with `ends` before the tokens of its eos_token_id, as transformers' Trainer
// aligns it with a tokenizer; nothing where it has them all. Null is none: what is made then says
// what that `config` of a model says, as ParseOldGenerationConfig reads it.
std::optional<nlohmann::json> GenerationConfigWithEnds(const nlohmann::json& given,
                                                       const nlohmann::json& config,
                                                       const std::vector<int64_t>& ends);

// A flag wins over the file, the file over the defaults; `temperature` is that of a model whose
// file does not say whether to sample. With "do_sample": false it is 0, with true 1; with beams 0.
SamplingOptions SamplingOf(const SamplingFlags& flags, const GenerationConfig& config,
                           double temperature);

}  // namespace spillway
