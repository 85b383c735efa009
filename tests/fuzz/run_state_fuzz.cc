// The run state inside a manifest: what is accepted can be written and read again.
#include <string>

#include "engine/run/run_state.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  const auto state = DecodeRunState(std::string(Text(data, size)));
  if (!state.ok()) {
    Expect(state.status(), {absl::StatusCode::kDataLoss, absl::StatusCode::kInvalidArgument});
    return 0;
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
  return 0;
}
