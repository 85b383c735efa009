// A DeepSpeed config, comments and all, as it is read and as what a run is made of.
#include "engine/config/deepspeed_config.h"
#include "engine/config/run_config.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(deepspeed_config, 2000) {
  const auto parsed = ParseDeepSpeedConfig(input, "f");
  if (!parsed.ok()) return Refuse(parsed.status(), {absl::StatusCode::kInvalidArgument});
  const MemoryFile file(input);
  TrainFlags flags;
  flags.config = file.path();
  flags.model = "model";
  flags.output = "output";
  flags.data = {"data.txt"};
  const auto config = ResolveRunConfig(flags);
  if (!config.ok()) {
    return Refuse(config.status(),
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented});
  }
  const TrainOptions& train = config->train;
  SPILLWAY_CHECK(train.micro_batch > 0 && train.accumulate > 0 && train.steps >= 0);
  SPILLWAY_CHECK(train.optimizer.eps >= 0);
  // Each setting once, with where it came from, and the flags.
  const nlohmann::json resolved = ResolvedConfigJson(*config);
  SPILLWAY_CHECK(resolved.size() == config->values.size() + 1);
  for (const auto& [name, entry] : resolved.items()) SPILLWAY_CHECK(!entry["source"].empty());
  SPILLWAY_CHECK(ParseStrictJson(resolved.dump(), "config.resolved.json").ok());
  return true;
}

}  // namespace spillway
