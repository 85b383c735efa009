// The passes under way: when each may start, and what its end releases. Their order is in
// swap/mover/pass_lines.h, and the work on one tile in swap/mover/tile_work.h.
#pragma once

#include <functional>
#include <vector>

#include "io/base/check.h"
#include "swap/mover/pass.h"
#include "swap/mover/pass_lines.h"
#include "swap/mover/tile_work.h"

namespace spillway {

// The mover's thread. A pass releases the buffers that it takes weights and gradient sums from when
// all of its tiles have been computed.
class Passes final : private TileListener {
 public:
  using Done = MoverThread::Done;
  Passes(const MoverContext& context, Buffers* buffers, TileBuffers* tile_buffers,
         DeviceTiles* device_tiles);

  // --- Passes begin.
  void Initialize(const FillTile* fill, std::function<void(double)> progress, Done done);
  // The training program that reads `version` has reached its loss: its gradients begin.
  void BeginGradients(int64_t version);
  // Operation `op` has completed the gradient: starts the pass that rounds it, or the update of its
  // unit.
  void TakeGradient(Buffer& sums, int64_t op);
  // Measures every unit that is to be updated by these scalars, for the schedule's `measure`-th
  // time. REQUIRES: every gradient is rounded, and no measure is under way.
  void Measure(const UpdateScalars& scalars, int measure, Done done);
  // Sets the scalars of the updates that begin from now on; where all updates are deferred, starts
  // them.
  void Announce(const UpdateScalars& scalars);
  // Every gradient of the step that makes `version` has been taken: starts the step's deferred
  // updates in the order in which the next forward needs the units, and puts those that wait into
  // that order.
  void UpdateDeferred(int64_t version);
  // Writes the planes of the unit that only live in memory, under a commit's generation.
  void Save(int unit, uint64_t generation);

  // Starts every tile that can start.
  void Start();
  // Calls the `done` of every call below whose work has ended.
  void AnswerWaiters();
  void FailWaiters(const absl::Status& status);
  // Calls `done` once every gradient of the step is rounded. REQUIRES: nobody else waits for that.
  void AwaitGradients(GradientTotal* total, Done done);
  // Calls `done` once no pass is left. Until then updates do not wait for buffers of a forward.
  void Flush(Done done);

  // --- A commit.
  // The newest version that some update has made, or is to make.
  int64_t newest_version() const;
  // Whether a pass is left that a commit of `version` waits for.
  bool AnyAwaitedBy(int64_t version) const;
  // Updates to later versions wait until LetGo. REQUIRES: none are held yet.
  void HoldUpdatesAfter(int64_t version) {
    SPILLWAY_CHECK(held_after_ == kNoVersion);  // one commit at a time
    held_after_ = version;
  }
  void LetGo() { held_after_ = kNoVersion; }
  // Whether a held update has had to wait since ForgetHeld.
  bool held() const { return held_; }
  void ForgetHeld() { held_ = false; }

  // Whether the tiles that a program which reads `version` begins with have their new values,
  // although the update goes on.
  bool IsThere(const FirstRead& read, int64_t version) const;

  // Whether an update to a later version has begun.
  bool AnyUpdateAfter(int64_t version) const;
  bool at_rest() const { return tiles_.at_rest(); }
  // How often a pass was examined for whether it can start (PassLines::looks).
  int64_t looks() const { return passes_.looks(); }

 private:
  static constexpr int64_t kNoVersion = INT64_MAX;

  Pass& Add(PassKind kind, int unit, int64_t version, Buffer* sums);
  // Adds a pass over every unit whose update is deferred, in the order in which the next forward
  // needs the units; returns how many.
  int AddDeferred(PassKind kind, int64_t version);
  bool MayStart(const Pass& pass) const;
  void BeginTiles(Pass& pass);
  bool MayStartTile(Pass& pass);
  bool HeldByCommit(const Pass& pass);
  void ChooseOrder(Pass& pass) const;
  void FirstTilesComputed(Pass& pass);
  void FillEnds(Pass& pass);
  void TileComputed(const TileJob& job) override;
  void PassStreamed(Pass& pass) override;
  void TileEnded(Pass& pass) override;
  void PassComputed(Pass& pass);
  void PassDone(Pass& pass);

  const MoverContext& context_;
  const SwapPlan& plan_ = context_.plan;
  const StateLayout& layout_ = context_.layout;
  Buffers* const buffers_;
  TileBuffers* const tile_buffers_;
  TileWork tiles_;
  PassLines passes_;
  UpdateScalars scalars_;
  int64_t gradients_version_ = 0;      // the version that the newest gradients were made from
  int gradients_to_round_ = 0;         // units whose gradient of this step is not rounded yet
  std::vector<bool> ahead_of_update_;  // [unit] a forward may have begun before all of its update
  FirstRead first_there_;  // by the last update that had an order, and the version that it made
  int64_t first_version_ = 0;
  int units_to_measure_ = 0;
  int measure_ = 0;
  std::vector<std::vector<GradientPartial>> partials_;  // [unit][tile]
  std::vector<int> need_;                               // [unit] the first operation that reads it
  int64_t held_after_ = kNoVersion;
  bool held_ = false;
  bool flushing_ = false;
  Done flush_waiter_;
  Done gradients_waiter_;
  Done measure_waiter_;
  GradientTotal* gradients_total_ = nullptr;
  Done initialize_waiter_;
  std::function<void(double)> initialize_progress_;
  int64_t initialize_tiles_ = 0;
  int64_t initialize_tiles_done_ = 0;
};

}  // namespace spillway
