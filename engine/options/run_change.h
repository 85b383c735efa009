// Settings that a resumed run may change (--resume --allow-change).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/numeric/dtype.h"
#include "nlohmann/json_fwd.hpp"

namespace spillway {

// A setting that a resume changed.
struct RunChange {
  int64_t step = 0;  // first step with the new value
  std::string name;  // name in the run's identity (engine/run/run_state.h): "lr"
  std::string from, to;

  friend bool operator==(const RunChange&, const RunChange&) = default;
};

// The change in words: "lr 0.0001 instead of 5e-05".
std::string Describe(const RunChange& change);
// JSON list of {step, name, from, to}.
nlohmann::json ToJson(const std::vector<RunChange>& changes);

// The names that --allow-change accepts, in their order in help and messages.
const std::vector<std::string>& ChangeableNames();

// The name of ChangeableNames that permits a change of `name` of a run's identity; "": none.
absl::string_view ChangeableBy(absl::string_view name);

// Advice for a loss or gradient that is not finite: settings that --resume may change, and settings
// that need another run.
std::string NotFiniteRemedy(DType dtype);

// Start of the count of samples. A run that changes its samples a step continues with the first
// sample that it has not used.
struct SampleCursor {
  int64_t step = 0;     // completed steps
  int64_t samples = 0;  // samples used by them, over all epochs
};

}  // namespace spillway
