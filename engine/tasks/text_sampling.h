// How texts of a model are written: what flags say of it, then its generation_config.json, then
// what is usual.
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
  // Where nobody says one, of a model without an encoder; others are not drawn from then.
  double temperature = 0;
};

// `name`: a file; "none"; "": the one in the directory `files`, or what the family's class says.
absl::StatusOr<GenerationConfig> FindGenerationConfig(const std::string& name,
                                                      const std::string& files,
                                                      const TransformerConfig& model);

// All but what ends texts. Warns of keys that nobody knows. kInvalidArgument for what contradicts
// itself, and as of ParseGenerationConfig.
absl::StatusOr<SamplingOptions> FindSampling(const SamplingChoice& choice,
                                             const TransformerConfig& model);

// More tokens that end them.
void AddEnds(const std::vector<int64_t>& tokens, SamplingOptions& sampling);

// What ends them where the file says nothing.
void FindEnds(const TransformerConfig& model, const Tokenizer& tokenizer,
              SamplingOptions& sampling);

}  // namespace spillway
