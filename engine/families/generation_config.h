// generation_config.json: the generation settings that a model's authors chose.
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

// The file's values; none if a key is missing or null.
struct GenerationConfig {
  std::optional<bool> do_sample;
  std::optional<double> temperature, top_p, repetition_penalty;
  std::optional<int64_t> top_k, no_repeat_ngram, min_new_tokens, min_length, max_new_tokens;
  std::optional<int64_t> num_beams, source_no_repeat_ngram, forced_first, forced_last;
  std::optional<int64_t> max_length;  // of prompt and new tokens together
  std::optional<double> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  std::vector<int64_t> ends;  // eos_token_id, one or several
  std::vector<int64_t> suppressed, suppressed_first;
  // The next values apply to speech models.
  std::string language;  // a code, or its token
  std::string task;      // "transcribe", "translate"
  std::optional<bool> timestamps;
  // The latest first timestamp token, counted from <|0.00|>.
  std::optional<int64_t> max_initial_timestamp;
  // Older files' form of `language` and `task`: tokens by position; -1: any token.
  std::map<int64_t, int64_t> forced_decoder;
  // Encoder-decoders only. A value that differs from config.json's is refused.
  std::optional<int64_t> start_token, no_timestamps;
  std::optional<bool> multilingual;
  std::vector<std::string> warnings;  // "FILE:LINE: ...": unknown keys
};

// kInvalidArgument, "FILE:LINE: ...", for invalid values and for keys of transformers that would
// change the tokens and are not supported (unless their value has no effect).
absl::StatusOr<GenerationConfig> ParseGenerationConfig(const JsonDocument& document);

// The generation settings in a config.json, where models have them that are older than
// generation_config.json. Other keys are ignored.
absl::StatusOr<GenerationConfig> ParseOldGenerationConfig(JsonDocument model_config);

// `given` with `ends` put before the tokens of its eos_token_id, as transformers' Trainer aligns it
// with a tokenizer; none if they are all there. If `given` is null, the settings in the model's
// `config` are used, as ParseOldGenerationConfig reads them.
std::optional<nlohmann::json> GenerationConfigWithEnds(const nlohmann::json& given,
                                                       const nlohmann::json& config,
                                                       const std::vector<int64_t>& ends);

// Merges settings: flags override the file, and the file overrides defaults. `temperature` is the
// default if the file has no do_sample; "do_sample": false means 0, true means 1, and beams mean 0.
SamplingOptions SamplingOf(const SamplingFlags& flags, const GenerationConfig& config,
                           double temperature);

}  // namespace spillway
