// generation_config.json: what is accepted is within what sampling takes.
#include <algorithm>
#include <cmath>

#include "engine/families/generation_config.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(generation_config, 4000) {
  const auto document = ParseStrictJson(input, "generation_config.json");
  if (!document.ok()) return Refuse(document.status(), {absl::StatusCode::kInvalidArgument});
  const auto config = ParseGenerationConfig(*document);
  if (!config.ok()) return Refuse(config.status(), {absl::StatusCode::kInvalidArgument});
  const SamplingOptions options = SamplingOf({}, *config, 0.8);
  SPILLWAY_CHECK(std::isfinite(options.temperature) && options.temperature >= 0);
  SPILLWAY_CHECK(options.top_p >= 0 && options.top_p <= 1 && options.top_k >= 0);
  SPILLWAY_CHECK(std::isfinite(options.repetition_penalty) && options.repetition_penalty > 0);
  SPILLWAY_CHECK(options.beams >= 1 && std::isfinite(options.length_penalty));
  SPILLWAY_CHECK(options.no_repeat_ngram >= 0 && options.min_tokens >= 0 &&
                 options.min_length >= 0);
  for (const int64_t token : options.ends) SPILLWAY_CHECK(token >= 0);
  return true;
}

}  // namespace spillway
