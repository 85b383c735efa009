#include "engine/tasks/text_sampling.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/model_file.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<GenerationConfig> FindGenerationConfig(const std::string& name,
                                                      const std::string& files,
                                                      const TransformerConfig& transformer) {
  if (name == "none") return GenerationConfig();
  const bool given = !name.empty();
  auto document = given ? ReadStrictJson(name) : ReadModelJson(files, "generation_config.json");
  if (!given && absl::IsNotFound(document.status())) {
    ASSIGN_OR_RETURN(JsonDocument model, ReadModelJson(files, "config.json"));
    ASSIGN_OR_RETURN(GenerationConfig config, ParseOldGenerationConfig(std::move(model)));
    config.forced_last = transformer.forced_last;
    config.source_no_repeat_ngram = transformer.source_no_repeat_ngram;
    return config;
  }
  RETURN_IF_ERROR(document.status());
  return ParseGenerationConfig(*document);
}

namespace {

// What the file says of this model must be what it is.
absl::Status CheckGenerationConfig(const GenerationConfig& config, const TransformerConfig& model) {
  const auto refuse = [](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": mend the file, or say --generation-config none (or a FILE)"));
  };
  if (model.encoder && config.start_token && *config.start_token != model.start_token) {
    return refuse(absl::StrCat("decoder_start_token_id is ", *config.start_token,
                               " in generation_config.json and ", model.start_token,
                               " in config.json"));
  }
  if (!model.encoder && config.source_no_repeat_ngram.value_or(0) > 0) {
    return refuse("encoder_no_repeat_ngram_size is for models with an encoder");
  }
  for (const std::optional<int64_t>& forced : {config.forced_first, config.forced_last}) {
    if (!forced || std::count(config.suppressed.begin(), config.suppressed.end(), *forced) == 0) {
      continue;
    }
    return refuse(absl::StrCat("token ", *forced, " is forced, and among suppress_tokens"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SamplingOptions> FindSampling(const SamplingChoice& choice,
                                             const TransformerConfig& model) {
  ASSIGN_OR_RETURN(const GenerationConfig config,
                   FindGenerationConfig(choice.generation_config, choice.files, model));
  for (const std::string& warning : config.warnings) LogWarning(warning);
  RETURN_IF_ERROR(CheckGenerationConfig(config, model));
  SamplingOptions sampling =
      SamplingOf(choice.flags, config, model.encoder ? 0 : choice.temperature);
  int64_t most = config.max_new_tokens.value_or(100);
  // Of a decoder its max_length counts the token that it begins with.
  if (model.encoder && !config.max_new_tokens && config.max_length) {
    most = std::max<int64_t>(1, *config.max_length - 1);
  }
  sampling.max_tokens = choice.flags.tokens.value_or(most);
  if (sampling.beams > 1 && sampling.temperature > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--num-beams ", sampling.beams,
        " (or num_beams of generation_config.json) looks "
        "for the likeliest text and draws none: give --temperature 0, or --num-beams 1"));
  }
  return sampling;
}

void AddEnds(const std::vector<int64_t>& tokens, SamplingOptions& sampling) {
  for (const int64_t token : tokens) {
    const bool known = std::count(sampling.ends.begin(), sampling.ends.end(), token) > 0;
    if (!known) sampling.ends.push_back(token);
  }
}

void FindEnds(const TransformerConfig& model, const Tokenizer& tokenizer,
              SamplingOptions& sampling) {
  std::vector<int64_t>& ends = sampling.ends;
  const std::optional<uint32_t> end = tokenizer.end_of_text();
  if (ends.empty() && model.encoder && model.end_token >= 0) ends = {model.end_token};
  if (ends.empty() && end) ends = {*end};
}

}  // namespace spillway
