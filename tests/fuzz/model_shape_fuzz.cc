// The config.json of any model, whether or not it can be trained here: what estimates go by.
#include "engine/families/read_model_shape.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(model_shape, 3000) {
  const auto document = ParseStrictJson(input, "config.json");
  if (!document.ok()) return Refuse(document.status(), {absl::StatusCode::kInvalidArgument});
  const auto shape = ReadModelShape(*document);
  if (!shape.ok()) return Refuse(shape.status(), {absl::StatusCode::kInvalidArgument});
  SPILLWAY_CHECK(!shape->model.units.empty() && shape->model.parameter_count() > 0);
  SPILLWAY_CHECK(shape->base_parameters <= shape->model.parameter_count());
  // Far below what a count of bytes holds, whatever is taken times it.
  SPILLWAY_CHECK(shape->model.parameter_count() < UINT64_MAX / 64);
  for (const UnitDescription& unit : shape->model.units) {
    for (const int other : unit.borrows) {
      SPILLWAY_CHECK(other >= 0 && other < static_cast<int>(shape->model.units.size()));
    }
  }
  return true;
}

}  // namespace spillway
