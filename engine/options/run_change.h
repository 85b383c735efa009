// Settings that a resumed run may change (--resume --allow-change).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/numeric/dtype.h"
#include "nlohmann/json_fwd.hpp"

namespace spillway {

// A setting that changed on resume.
struct RunChange {
  int64_t step = 0;  // the first step with the new value
  std::string name;  // its name in the run's identity (engine/run/run_state.h): "lr"
  std::string from, to;

  friend bool operator==(const RunChange&, const RunChange&) = default;
};

// "lr 0.0001 instead of 5e-05".
std::string Describe(const RunChange& change);
// [{step, name, from, to}].
nlohmann::json ToJson(const std::vector<RunChange>& changes);

// The names that --allow-change accepts, in order of listing.
const std::vector<std::string>& ChangeableNames();

// The --allow-change name that permits a change of `name` in a run's identity; "": none.
absl::string_view ChangeableBy(absl::string_view name);

// The remedies for a loss or gradient that is not finite: changes that --resume allows, and those
// that need a new run.
std::string NotFiniteRemedy(DType dtype);

// The reference point for counting samples: a resumed run with another number of samples per step
// continues with the first sample that was not taken.
struct SampleCursor {
  int64_t step = 0;     // completed steps,
  int64_t samples = 0;  // and the samples of all epochs taken in them
};

}  // namespace spillway
