// A separate device's part in the work on a tile: copies to the device and back, rounding there,
// and updates there.
//
// The device rounds gradients, one tile after the other through the same memory. A streamed update
// is the device's update of state that lives elsewhere. Each of its tiles passes
//
//   a worker   verifies the planes and the gradient that came from the store
//   to device  copies the planes, and a gradient that has waited elsewhere
//   to host    waits for those copies; rounds a gradient that is on the device, updates, puts the
//              new weights into the forward's buffer, copies the planes back
//   a worker   makes the checksums of the planes that go to the store
//
// A tile's memory on the device is its own from its first copy until its last is done, and the
// tiles' kernels are in one stream. So no other work has to wait.
#pragma once

#include <vector>

#include "swap/mover/buffers.h"
#include "swap/mover/mover_context.h"
#include "swap/mover/pass.h"

namespace spillway {

// The mover's thread. Every method puts work into streams and returns at once; DeviceLane::WhenDone
// tells when the work is done. Never called without a separate device.
class DeviceTiles {
 public:
  DeviceTiles(const MoverContext& context, Buffers* buffers);

  // Copies the planes of a tile that live on the device, from or to `planes` in the host's memory.
  void CopyPlanes(int unit, int tile, bool to_device, const std::vector<char*>& planes);

  // --- Tiles that a worker computes. Their work begins with copies in kToHost and ends with copies
  // in kToDevice.

  // Brings the gradient, unless that stays on the device; for an update also the old weights, where
  // they are nowhere else; for a save every plane that lives on the device.
  void CopyIn(TileJob& job);
  // Takes the results to the device: new weights into a forward's buffer or to their home there;
  // the first state.
  void CopyOut(TileJob& job);

  // --- Tiles that the device updates, in kToHost.
  // Updates a tile all of whose planes live on the device.
  void UpdateInPlace(TileJob& job);
  // A tile of a streamed update takes memory on the device first, and gives it back when its copies
  // are done. TakeMemory returns false where no memory is free. REQUIRES: UpdateStreamed has
  // memory.
  bool TakeMemory(TileJob& job);
  void GiveBackMemory(TileJob& job);
  void UpdateStreamed(TileJob& job);

  // Called at the job's end.
  void GiveBackStatistics(TileJob& job);

 private:
  TileStatistics* StatisticsThere() const;
  void BringStatistics(TileJob& job);
  void Round(TileJob& job, char* gradient);
  void Update(TileJob& job, std::vector<char*> planes, char* gradient);

  const MoverContext& context_;
  const SwapPlan& plan_ = context_.plan;
  const StateLayout& layout_ = context_.layout;
  Buffers* const buffers_;
  std::vector<int> free_statistics_;  // in the plan's partials_span
  std::vector<int> free_tiles_;       // by the plan's device_tile_spans
};

}  // namespace spillway
