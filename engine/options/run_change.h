// Settings that a resumed run may change (--resume --allow-change).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/numeric/dtype.h"
#include "nlohmann/json_fwd.hpp"

namespace spillway {

// A setting that a run was given anew while it went on.
struct RunChange {
  int64_t step = 0;  // the first that was taken with it
  std::string name;  // as the run's identity has it (engine/run/run_state.h): "lr"
  std::string from, to;

  friend bool operator==(const RunChange&, const RunChange&) = default;
};

// "lr 0.0001 instead of 5e-05".
std::string Describe(const RunChange& change);
// [{step, name, from, to}].
nlohmann::json ToJson(const std::vector<RunChange>& changes);

// The names that --allow-change takes, in the order in which they are listed.
const std::vector<std::string>& ChangeableNames();

// By which of them the value `name` of a run's identity may change; "": by none.
absl::string_view ChangeableBy(absl::string_view name);

// What to do where a loss or gradient is not finite: what --resume may change, and what only
// another run can.
std::string NotFiniteRemedy(DType dtype);

// Where the samples of steps are counted from: a run that takes more or fewer of them a step than
// before goes on with the first that it has not taken.
struct SampleCursor {
  int64_t step = 0;     // steps behind it,
  int64_t samples = 0;  // which have taken so many of all epochs' samples
};

}  // namespace spillway
