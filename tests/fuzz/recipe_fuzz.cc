// A recipe in YAML, or an earlier run's config.resolved.json, given as --config.
#include "engine/base/strict_json.h"
#include "engine/config/recipe.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(recipe, 1000) {
  const MemoryFile file(input);
  TrainFlags flags;
  flags.config = file.path();
  const absl::Status taken = TakeConfigFile(&flags);
  if (!taken.ok()) return Refuse(taken, {absl::StatusCode::kInvalidArgument});
  // Flags that were taken can be given again.
  const nlohmann::json given = GivenFlags(flags);
  SPILLWAY_CHECK(ParseStrictJson(given.dump(), "given").ok());
  return flags.recipe.has_value();
}

}  // namespace spillway
