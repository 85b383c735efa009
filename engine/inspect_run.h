// What `spillway inspect` says of a run: how far it is, a digest of every plane of
// every parameter, and where each piece lies.
#pragma once

#include "absl/status/statusor.h"
#include "engine/state_source.h"
#include "nlohmann/json.hpp"

namespace spillway {

// {parameter: {plane: 16 hex digits}}: XXH3-64 over the parameter's elements in order,
// without padding, so independent of tiles, slots, paths and ranks. The planes that
// hold a 16-bit run's master are digested as they are.
absl::StatusOr<nlohmann::json> DigestState(const StateSource& source);

// {"step", "finished", "dtype", "digests", "digest" (of all), "extents": [{file, offset,
// bytes, unit, plane, tile}]}.
absl::StatusOr<nlohmann::json> InspectRun(const std::string& output);

}  // namespace spillway
