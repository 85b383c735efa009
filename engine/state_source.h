// A run's whole state, readable tile by tile: from a live manager or a store at rest.
// What digests and exports are made from.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/dtype.h"
#include "engine/model_description.h"
#include "engine/run_state.h"
#include "swap/swap_manager.h"
#include "swap/swap_store.h"

namespace spillway {

struct StateSource {
  ModelDescription model;
  StateLayout layout;
  DType dtype = DType::kBFloat16;
  // Calls `visit` for every tile in order, with planes [first, last).
  std::function<absl::Status(int first_plane, int last_plane, const SwapManager::FillTile& visit)>
      read;
};

// kDataLoss when the units of a commit's run state are not those of its tiles.
absl::Status CheckModelFitsLayout(const ModelDescription& model, const StateLayout& layout);

// The last commit in `output`. kNotFound when there is none.
struct CommittedRun {
  std::string directory;  // of the manifest
  RunState state;
  std::unique_ptr<SwapStore> store;
  StateSource source() const;  // valid while this lives
};
absl::StatusOr<CommittedRun> OpenCommittedRun(const std::string& output);
// The commit that a manifest names, wherever that lies.
absl::StatusOr<CommittedRun> OpenCommit(const std::string& manifest_path);

// The last commit's run state alone; kNotFound without one.
absl::StatusOr<RunState> ReadCommittedState(const std::string& output);

}  // namespace spillway
