// The run state inside a manifest: what is accepted can be written and read again.
#include <string>

#include "engine/run/run_state.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(run_state, 4000) {
  const auto state = DecodeRunState(std::string(input));
  if (!state.ok()) {
    return Refuse(state.status(),
                  {absl::StatusCode::kDataLoss, absl::StatusCode::kInvalidArgument});
  }
  SPILLWAY_CHECK(state->step >= 0 && state->threads >= 0);
  for (const UnitDescription& unit : state->model.units) {
    for (const int other : unit.borrows) {
      SPILLWAY_CHECK(other >= 0 && other < static_cast<int>(state->model.units.size()));
    }
    PiecesOf(unit, 0, unit.flat_parameters);
  }
  const std::string encoded = EncodeRunState(*state);
  const auto again = DecodeRunState(encoded);
  SPILLWAY_CHECK(again.ok() && EncodeRunState(*again) == encoded);
  return true;
}

}  // namespace spillway
