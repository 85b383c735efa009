// The mover: the one thread that decides what moves when, and owns the I/O engine.
//
// It wires its parts together, and lets each go on whenever something has happened (Pump). A part
// knows only those above it in this list, from which its results come back as callbacks:
//
//   thread         tasks from other threads, and the failure that ends everything
//   lane           a separate device's streams; an empty one where compute uses the host's memory
//   buffers        memory with an address and a lifetime in operations; which version lives where
//   in place       reads tiles that lie in the model's files
//   prefetch       fills buffers from the store, and writes spilled inputs there
//   tile buffers   memory that tiles pass through
//   device tiles   a separate device's part in the work on a tile
//   passes         walks over the tiles of one unit: round, update, save, fill; the way of each
//                  tile is in swap/mover/tile_work.h
//   committer      makes what stands in the store a commit
//   gate           grants operations when their weights and inputs are there
//   rest           reads the state while nothing else moves
//
// All of them live on the mover's thread, so that their state needs no locks; the compute thread,
// the workers and a device's threads talk to it through MoverThread::Post.
#pragma once

#include <memory>

#include "swap/mover/buffers.h"
#include "swap/mover/committer.h"
#include "swap/mover/device_tiles.h"
#include "swap/mover/in_place_reads.h"
#include "swap/mover/mover_context.h"
#include "swap/mover/op_gate.h"
#include "swap/mover/passes.h"
#include "swap/mover/prefetch.h"
#include "swap/mover/state_at_rest.h"
#include "swap/mover/tile_buffers.h"

namespace spillway {

class Mover {
 public:
  // Starts the thread. With an executor there is no thread: a caller that waits runs the rounds
  // (RunOnce). All arguments but `options`, `engine` and `in_place` (the memory of InPlaceReads)
  // outlive the mover.
  Mover(const SwapPlan& plan, SwapStore* store, Arena* host_arena, Arena* device_arena,
        TileCompute* compute, const SwapManagerOptions& options, std::unique_ptr<IoEngine> engine,
        std::unique_ptr<Arena> in_place = nullptr);
  // Waits until everything under way has ended.
  ~Mover();

  // Runs what was posted, starts all that can start, and waits until something happens. False
  // once it has come to rest and shall end.
  bool RunOnce();

  // --- Any thread.
  MoverThread& thread() { return thread_; }
  MoverRecord& record() { return record_; }
  DeviceLane& lane() { return *lane_; }
  absl::string_view engine_name() const { return engine_->name(); }
  SwapStats stats() const;

  // --- The mover's thread, for SwapManager's methods.
  OpGate& gate() { return gate_; }
  Passes& passes() { return passes_; }
  Committer& committer() { return committer_; }
  StateAtRest& rest() { return rest_; }

 private:
  void Pump();
  bool AtRest() const;

  const std::unique_ptr<IoEngine> engine_;
  WorkerPool workers_;
  MoverRecord record_;
  MoverThread thread_;
  const std::unique_ptr<DeviceLane> lane_;
  const MoverContext context_;
  Buffers buffers_;
  InPlaceReads in_place_;
  Prefetch prefetch_;
  TileBuffers tile_buffers_;
  DeviceTiles device_tiles_;
  Passes passes_;
  Committer committer_;
  OpGate gate_;
  StateAtRest rest_;
};

}  // namespace spillway
