// A discrete device's part in the work on a tile: what is copied there and back, what it rounds and
// updates itself.
//
// Gradients are rounded there, one tile after the other through the same memory. A staged update
// is one of state that lives elsewhere; for each of its tiles
//
//   a worker   checks what came from the store
//   to device  the planes, and a gradient that has waited elsewhere
//   to host    waits for those; rounds a gradient that is there, updates, puts the new weights
//              into the forward's buffer, copies the planes back
//   a worker   makes the checksums of what goes to the store
//
// All that one tile uses on the device is its own from its first copy until its last is done, and
// the tiles' kernels are in one stream. So nothing else has to wait.
#pragma once

#include <vector>

#include "swap/mover/buffers.h"
#include "swap/mover/mover_context.h"
#include "swap/mover/pass.h"

namespace spillway {

// The mover's thread. Everything here puts work into streams and comes back at once; who needs to
// know that it is done asks the lane. Never called without a discrete device.
class DeviceTiles {
 public:
  DeviceTiles(const MoverContext& context, Buffers* buffers);

  // Copies the planes of a tile that live on the device, from or to `planes` in the host's memory.
  void CopyPlanes(int unit, int tile, bool to_device, const std::vector<char*>& planes);

  // --- Work of the host's, which begins and ends with copies, in kToHost and in kToDevice.
  // Brings what it begins with: the gradient, unless that stays there; for an update also the old
  // weights, where they are nowhere else; for a save all that lives there.
  void CopyIn(TileTask& task);
  // Takes what it has made: new weights for a forward, or for where they live; the first state.
  void CopyOut(TileTask& task);

  // --- Work of the device's, in kToHost.
  // The update of a tile all of which lives there.
  void UpdateInPlace(TileTask& task);
  // A staged update takes memory for its tile first, and gives it back when it is done there.
  bool TakeMemory(TileTask& task);
  void GiveBackMemory(TileTask& task);
  void UpdateStaged(TileTask& task);

  // At the task's end.
  void GiveBackStatistics(TileTask& task);

 private:
  TileStatistics* StatisticsThere() const;
  void BringStatistics(TileTask& task);
  void Round(TileTask& task, char* gradient);
  void Update(TileTask& task, std::vector<char*> planes, char* gradient);

  const MoverContext& context_;
  const SwapPlan& plan_ = context_.plan;
  const StateLayout& layout_ = context_.layout;
  Buffers* const buffers_;
  std::vector<int> free_statistics_;  // in the plan's partials_span
  std::vector<int> free_tiles_;       // by the plan's device_tile_spans
};

}  // namespace spillway
