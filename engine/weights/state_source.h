// A run's whole state, readable tile by tile: from a live manager or a store at rest. Digests and
// exports are made from it.
#pragma once

#include <functional>
#include <vector>

#include "engine/model/model_description.h"
#include "engine/model/state_buffer.h"
#include "swap/mover/swap_manager.h"
#include "swap/plan/state_layout.h"

namespace spillway {

struct StateSource {
  ModelDescription model;
  StateLayout layout;
  DType dtype = DType::kBFloat16;
  std::vector<StateBuffer> buffers = {};
  // Calls `visit` for every tile in order, with planes [first, last).
  std::function<absl::Status(int first_plane, int last_plane, const SwapManager::FillTile& visit)>
      read;
};

}  // namespace spillway
