// Resolves how a model generates texts: flags take precedence, then its generation_config.json,
// then defaults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/families/generation_config.h"
#include "engine/families/transformer_config.h"
#include "engine/options/sampling_options.h"
#include "engine/tokenizers/tokenizer.h"

namespace spillway {

struct SamplingChoice {
  const SamplingFlags& flags;
  std::string generation_config;  // a file; "none"; "": the one in `files`
  std::string files;              // directory of the model's files
  // Default for a model without an encoder; other models use the likeliest token by default.
  double temperature = 0;
};

// `name`: a file; "none"; "": the one in the directory `files`, or the defaults of the family's
// class.
absl::StatusOr<GenerationConfig> FindGenerationConfig(const std::string& name,
                                                      const std::string& files,
                                                      const TransformerConfig& model);

// Resolves everything except what ends texts. Warns of unknown keys. kInvalidArgument for
// contradictions, and as for ParseGenerationConfig.
absl::StatusOr<SamplingOptions> FindSampling(const SamplingChoice& choice,
                                             const TransformerConfig& model);

// Adds tokens that end texts.
void AddEnds(const std::vector<int64_t>& tokens, SamplingOptions& sampling);

// Sets the tokens that end texts if the file has none.
void FindEnds(const TransformerConfig& model, const Tokenizer& tokenizer,
              SamplingOptions& sampling);

}  // namespace spillway
