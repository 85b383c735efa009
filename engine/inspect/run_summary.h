// Summarises a run from the files in its OUTPUT other than the commit: progress, how it ended,
// losses, model and data. Values whose file is missing are left out.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace spillway {

// {"state", "message", "steps", "started", "model", "data", "optimizer", "loss": [{step, loss},
// ...] (the first and the last row), "held_out": {step, loss, best_step}, "exported"}. `directory`:
// an OUTPUT, or a copy of a commit, which has few of these. "state" is run.json's, but "killed" if
// it says "running" and no process runs it.
nlohmann::json SummaryOfRun(const std::string& directory);

}  // namespace spillway
