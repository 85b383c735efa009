// The way of one tile of a pass: its planes are read, verified, computed with, given checksums and
// written. It begins on the mover's thread, is a worker's from Compute to Computed, and ends here.
//
//   Begin     takes a task, a tile buffer, and points at the tile's memory
//   Read      brings what is elsewhere: planes and gradient from the store, or from a device
//   Compute   on a worker: verifies what came, rounds or updates, makes the checksums
//   Computed  the new values are in memory; those of a discrete device are on their way there
//   Write     takes planes or gradient to the store
//   Written   the store records what it has now
//   End       gives back the tile buffer and the task
//
// A staged update takes a way of its own between Read and Computed (swap/mover/device_tiles.h), and
// so does one of state that lives on a discrete device.
// Large because it is the whole way of a tile, from its read to its write, which is read together.
#pragma once

#include <deque>
#include <vector>

#include "swap/mover/device_tiles.h"
#include "swap/mover/mover_context.h"
#include "swap/mover/pass.h"
#include "swap/mover/tile_buffers.h"

namespace spillway {

// Who runs the passes, and is told of their tiles.
class TileListener {
 public:
  virtual ~TileListener() = default;
  // The tile's new values are in memory.
  virtual void TileComputed(const TileTask& task) = 0;
  // Every tile of the staged pass is in the device's streams: what uses its buffers waits there.
  virtual void PassStaged(Pass& pass) = 0;
  // The tile is where it lives. Not told of tiles that a failure has ended.
  virtual void TileEnded(Pass& pass) = 0;
};

// The mover's thread but for what a worker does. A transfer or a worker that fails is the mover's
// failure; the task ends all the same.
class TileWork {
 public:
  TileWork(const MoverContext& context, TileBuffers* tile_buffers, DeviceTiles* device_tiles,
           TileListener* listener);

  // Whether a task is free for a tile of the pass. Where some updates are staged and others are
  // not, neither kind keeps the other from starting.
  bool HasRoom(const Pass& pass) const;
  // Begins the pass's next tile. REQUIRES: HasRoom, and a tile buffer where the pass needs one.
  void Begin(Pass& pass);
  bool at_rest() const { return free_tasks_.size() == tasks_.size(); }

 private:
  void Read(TileTask& task);
  void CopiedIn(TileTask& task);
  void ReadEnded(TileTask& task);
  void Arrived(TileTask& task);
  void Compute(TileTask& task);
  absl::Status ComputeTile(TileTask& task) const;
  void RoundSums(TileTask& task) const;
  absl::Status Verify(const TileTask& task) const;
  void ChecksumPlanes(TileTask& task) const;
  void ChecksumStale(TileTask& task) const;
  void Computed(TileTask& task);
  void MarkStale(const TileTask& task) const;
  void Write(TileTask& task);
  void WriteStale(TileTask& task);
  void WriteEnded(TileTask& task);
  void Written(TileTask& task);
  void End(TileTask& task);

  // --- Staged updates, and those in a device's own memory.
  void Stage(TileTask& task);
  void VerifyStaged(TileTask& task);
  void QueueStaged(TileTask& task);
  void StartStaged();
  void Staged(TileTask& task);
  void ChecksumStaged(TileTask& task);
  void UpdatedInPlace(TileTask& task);
  void FindUnstorable(TileTask& task);
  void CheckUnstorable(TileTask& task);

  bool NeedsCopyIn(const TileTask& task) const;
  bool NeedsCopyOut(const TileTask& task) const;
  char* GradientPlace(const TileTask& task) const;
  void Submit(TileTask& task, IoRequest& request, IoOp op, const TileLocation& location, char* data,
              uint64_t bytes);
  static void TransferDone(IoRequest& request, const absl::Status& status);
  // Calls `kWork` on a worker, and then `kThen` here; or `kThen` once all that `stream` has so far
  // is done.
  template <auto kWork, auto kThen>
  void OnWorker(TileTask& task, SpanKind kind);
  template <auto kThen>
  void WhenDone(StreamId stream, TileTask& task);

  const MoverContext& context_;
  const SwapPlan& plan_ = context_.plan;
  const StateLayout& layout_ = context_.layout;
  SwapStore* const store_ = context_.store;
  TileBuffers* const tile_buffers_;
  DeviceTiles* const device_tiles_;
  TileListener* const listener_;
  std::vector<TileTask> tasks_;
  std::vector<TileTask*> free_tasks_;
  int most_updates_;  // under way at once, of those that workers do and of staged ones
  int updates_running_[2] = {0, 0};  // [staged]
  std::deque<TileTask*> to_stage_;   // they wait for memory on the device
};

}  // namespace spillway
