// The way of one tile of a pass: its planes are read, verified, updated, given checksums and
// written. It begins on the mover's thread, is on a worker from Compute to Computed, and ends on
// the mover's thread.
//
//   Begin     takes a job and a tile buffer, and points at the tile's memory
//   Read      reads planes and gradient from the store, or copies them from a separate device
//   Compute   on a worker: verifies them, rounds or updates, makes the checksums
//   Computed  the new values are in memory; those of a separate device are on their way there
//   Write     writes planes or gradient to the store
//   Written   records checksums and generation in the store
//   End       returns the tile buffer and the job
//
// A streamed update takes a way of its own between Read and Computed (swap/mover/device_tiles.h),
// and so does an update of state that lives on a separate device.
//
// Large because a tile's whole way, from its read to its write, is best read together.
#pragma once

#include <deque>
#include <vector>

#include "swap/mover/device_tiles.h"
#include "swap/mover/mover_context.h"
#include "swap/mover/pass.h"
#include "swap/mover/tile_buffers.h"

namespace spillway {

// The owner of the passes, which is called when their tiles come to certain places.
class TileListener {
 public:
  virtual ~TileListener() = default;
  // The tile's new values are in memory.
  virtual void TileComputed(const TileJob& job) = 0;
  // Every tile of the streamed pass is in the device's streams, where the next users of its buffers
  // wait.
  virtual void PassStreamed(Pass& pass) = 0;
  // The tile's new values are where they live. Not called for tiles that a failure has ended.
  virtual void TileEnded(Pass& pass) = 0;
};

// The mover's thread but for what a worker does. A transfer or a worker that fails is the mover's
// failure; the job ends all the same.
class TileWork {
 public:
  TileWork(const MoverContext& context, TileBuffers* tile_buffers, DeviceTiles* device_tiles,
           TileListener* listener);

  // Whether a job is free for a tile of the pass. Where some updates are streamed and others are
  // not, each kind has jobs that the other cannot take.
  bool HasRoom(const Pass& pass) const;
  // Begins the pass's next tile. REQUIRES: HasRoom, a tile is left, and a tile buffer is free where
  // the pass needs one.
  void Begin(Pass& pass);
  bool at_rest() const { return free_jobs_.size() == jobs_.size(); }

 private:
  void Read(TileJob& job);
  void CopiedIn(TileJob& job);
  void ReadEnded(TileJob& job);
  void Arrived(TileJob& job);
  void Compute(TileJob& job);
  absl::Status ComputeTile(TileJob& job) const;
  void RoundSums(TileJob& job) const;
  absl::Status Verify(const TileJob& job) const;
  void ChecksumPlanes(TileJob& job) const;
  void ChecksumStale(TileJob& job) const;
  void Computed(TileJob& job);
  void MarkStale(const TileJob& job) const;
  void Write(TileJob& job);
  void WriteStale(TileJob& job);
  void WriteEnded(TileJob& job);
  void Written(TileJob& job);
  void End(TileJob& job);

  // --- Streamed updates, and those in a device's own memory.
  void Stream(TileJob& job);
  void VerifyStreamed(TileJob& job);
  void QueueStreamed(TileJob& job);
  void StartStreamed();
  void Streamed(TileJob& job);
  void ChecksumStreamed(TileJob& job);
  void UpdatedInPlace(TileJob& job);
  void FindUnstorable(TileJob& job);
  void CheckUnstorable(TileJob& job);

  bool NeedsCopyIn(const TileJob& job) const;
  bool NeedsCopyOut(const TileJob& job) const;
  char* GradientPlace(const TileJob& job) const;
  void Submit(TileJob& job, IoRequest& request, IoOp op, const TileLocation& location, char* data,
              uint64_t bytes);
  static void TransferDone(IoRequest& request, const absl::Status& status);
  // OnWorker calls `kWork` on a worker, and then `kThen` on the mover's thread. WhenDone calls
  // `kThen` there once all work put into `stream` so far is done.
  template <auto kWork, auto kThen>
  void OnWorker(TileJob& job, SpanKind kind);
  template <auto kThen>
  void WhenDone(StreamId stream, TileJob& job);

  const MoverContext& context_;
  const SwapPlan& plan_ = context_.plan;
  const StateLayout& layout_ = context_.layout;
  SwapStore* const store_ = context_.store;
  TileBuffers* const tile_buffers_;
  DeviceTiles* const device_tiles_;
  TileListener* const listener_;
  std::vector<TileJob> jobs_;
  std::vector<TileJob*> free_jobs_;
  int most_updates_;  // so many of each kind, streamed or not, may be under way at once
  int updates_running_[2] = {0, 0};  // [streamed]
  std::deque<TileJob*> to_stream_;   // jobs that wait for memory on the device
};

}  // namespace spillway
