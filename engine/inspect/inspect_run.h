// Facts about a run for `spillway inspect`: its progress, a digest of every plane of every
// parameter, and the place of each piece.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/run/committed_run.h"
#include "nlohmann/json.hpp"

namespace spillway {

// Called from time to time while a state is read, with the bytes done and in total.
using InspectProgress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

// {parameter: {plane: 16 hex digits}}: XXH3-64 over the parameter's elements in order, without
// padding, so independent of tiles, slots, paths and ranks. Planes that hold a 16-bit run's master
// are digested unchanged.
absl::StatusOr<nlohmann::json> DigestState(const StateSource& source,
                                           const InspectProgress& progress = {});

// {"kind": "run", "step", "applied_steps", "finished", "dtype", "threads", "ranks", "parameters",
// "units", "identity": [[name, value]], "changes": [{step, name, from, to}], "manifest", "files":
// [{file, bytes}], "committed" (seconds since 1970), "summary" (SummaryOfRun of the manifest's
// directory), "digests", "digest" (of all), "extents": [{file, offset, bytes, unit, plane, tile}]}.
// Reads everything once; with `digests` false only the manifest, and leaves the two digests out.
// kNotFound without the manifest; kDataLoss if bytes are wrong, or files missing or cut.
absl::StatusOr<nlohmann::json> InspectCommit(const std::string& manifest_path,
                                             const InspectProgress& progress = {},
                                             bool digests = true);

// Describes a run whose state was freed: the same fields without the state, "kind": "freed".
nlohmann::json InspectFreed(const std::string& output, const RunState& state);

// Describes the commit in `output`: an OUTPUT, or a copy of a commit.
absl::StatusOr<nlohmann::json> InspectRun(const std::string& output,
                                          const InspectProgress& progress = {},
                                          bool digests = true);

}  // namespace spillway
