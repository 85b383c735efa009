// Carries out a SwapPlan: brings weights before they are needed, takes gradients
// when they are complete, streams tiles through the optimizer, and makes commits.
//
// One compute thread calls the methods below. Behind them a mover thread owns the
// I/O engine and all decisions, and a few workers do the arithmetic on tiles; both
// run beside the compute thread. A failed transfer, wrong bytes or an update that
// goes wrong becomes the status of the next call; after that the manager only stops.
//
// A step, as the compute thread sees it:
//
//   manager->Enqueue(Program::kTrain);           // fetches begin
//   manager->AnnounceUpdate(scalars);            // immediate updates
//   for each op of the schedule:
//     OpBuffers buffers = manager->BeginOp();    // waits for what the op needs
//     ... compute, add to buffers.gradients ...
//     manager->EndOp();
//   total = manager->AwaitGradients();           // deferred updates
//   manager->AnnounceUpdate(scalars);            // clip and scale are known now
//
// Deferred updates then run inside the next program, or in Flush. A commit
//
//   manager->StartCommit(path, record);
//
// goes on beside the steps that follow: when the updates announced so far stand, what
// only lives in memory is written, everything is made durable, and the manifest written.
// Later updates wait for that, and nothing else does.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "swap/device/arena.h"
#include "swap/device/tile_compute.h"
#include "swap/mover/swap_types.h"
#include "swap/plan/swap_plan.h"
#include "swap/store/swap_store.h"

namespace spillway {

class Mover;

class SwapManager {
 public:
  // `store` may be null when the plan places nothing in it and nothing is committed;
  // otherwise it, the arenas and `compute` outlive the manager. The arenas have at
  // least the plan's sizes.
  static absl::StatusOr<std::unique_ptr<SwapManager>> Create(SwapPlan plan, SwapStore* store,
                                                             Arena* host_arena, Arena* device_arena,
                                                             TileCompute* compute,
                                                             const SwapManagerOptions& options);
  ~SwapManager();

  const SwapPlan& plan() const { return plan_; }
  absl::string_view engine_name() const;

  // --- The first state.
  using FillTile = spillway::FillTile;
  // Calls `fill` for every tile (from several workers, planes zeroed) and puts the result where it
  // lives. Calls begin in order, units and in each the tiles: one that waits for what those before
  // it do waits for something that goes on. Where one fails it comes back when all have ended.
  // Units that the store reads in place are not filled: what lives in memory of them is read there.
  absl::Status Initialize(const FillTile& fill, const std::function<void(double)>& progress = {});
  // Reads the state that lives in memory from the store (resume).
  absl::Status LoadResident();

  // --- Steps.
  // Programs run in the order enqueued; the next may be enqueued while one runs, so
  // that its fetches overlap. With `first_read` the program's first operation may be granted before
  // the other tiles of that unit are updated, whose contents are then undefined in it. Ignored on a
  // separate device. REQUIRES: the operation uses the unit, which has these tiles, ascending.
  void Enqueue(Program program, FirstRead first_read = {});
  // Forgets programs that no BeginOp has entered.
  void AbandonQueued();
  // Gives up the program that runs, even in an operation that has begun and will not end, and the
  // enqueued ones. Returns whether the state is that of the training program before it, once Flush
  // has returned: false where updates of this program have begun. REQUIRES: no program is enqueued
  // afterwards.
  absl::StatusOr<bool> AbandonRunning();
  absl::StatusOr<OpBuffers> BeginOp();
  void EndOp();
  // Waits until every gradient of the step is rounded. For deferred updates.
  absl::StatusOr<GradientTotal> AwaitGradients();
  // Does one of StepSchedule::measures (the first has number 0), and waits until every tile that is
  // to be updated by these scalars was measured (TileCompute::Measure). Called after
  // AwaitGradients, unless the update is skipped.
  absl::Status MeasureUpdate(const UpdateScalars& scalars, int measure);
  // The scalars of the current step's update. Immediate updates: before the first
  // EndOp of a loss or backward. Deferred: after AwaitGradients. scalars.step counts up.
  void AnnounceUpdate(const UpdateScalars& scalars);
  // Finishes every pending update, including its writes.
  // REQUIRES: no program is enqueued (AbandonQueued).
  absl::Status Flush();

  // --- Commits. REQUIRES: a store of two slots.
  // Begins a commit of the state after every update announced so far, and returns; waits
  // for the commit before it only. `at_end`, when given, is called once it is durable,
  // on the manager's thread. `publish`, when given, is called before that, when the manifest is
  // on the disk or could not be brought there, on a thread of its own that may wait there; until it
  // has returned OK the commit before stays whole.
  // REQUIRES: after the last EndOp of a program, or at rest.
  absl::Status StartCommit(absl::string_view manifest_path, CommitRecord record,
                           std::function<void()> at_end = {}, PublishCommitHere publish = {});
  // Waits until the commit is durable. Deferred updates need a program, or Flush, to run. An error
  // also where that commit alone was lost, as it had no manifest or there was no room for it.
  absl::Status AwaitCommit();
  // Waits until none is under way. A commit that was lost is no error here, and the run goes on.
  absl::Status AwaitNoCommit();

  // --- State at rest. REQUIRES: after Flush (or Initialize, LoadResident).
  // StartCommit and AwaitCommit.
  absl::Status Commit(absl::string_view manifest_path, const CommitRecord& record);
  // Calls `visit` for every tile in order, on this thread. Planes
  // [first_plane, last_plane) are there, the others null.
  absl::Status ReadState(int first_plane, int last_plane, const FillTile& visit);

  SwapStats stats() const;

  // With an executor: runs one round of the mover, as its own thread would beside the compute
  // thread.
  void RunOnce();

  // Events in the order in which they happen, for tests: "update 3" and so on. They are
  // recorded only if that is enabled before the first step.
  void RecordEvents();
  std::vector<std::string> TakeEvents();

 private:
  explicit SwapManager(SwapPlan plan);

  SwapPlan plan_;
  std::unique_ptr<Mover> mover_;
};

}  // namespace spillway
