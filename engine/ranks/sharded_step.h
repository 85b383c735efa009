// A rank's part of a step on sharded state: whole units for the computation, exchanged with the
// other ranks from shards that swap.
//
// A thread of its own takes the actions of the schedule in order: it brings this rank's shard of
// the weights, gathers the others', and sums a complete gradient over the ranks into the shard's
// sums, which the update reads. The compute thread only waits for what its operation needs.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "engine/ranks/collective_traffic.h"
#include "engine/ranks/collectives.h"
#include "engine/ranks/exchange_stream.h"
#include "engine/ranks/gradient_sums.h"
#include "engine/ranks/shard_grid.h"
#include "engine/ranks/sharded_schedule.h"
#include "engine/ranks/step_memory.h"
#include "io/base/mutex.h"
#include "io/base/trace.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

// Counters since the start; a step's row is the difference of two.
struct ShardedStats {
  double busy_seconds = 0;              // seconds of exchanges and of waiting for them
  double stall_collective_seconds = 0;  // the compute thread waited for ranks
  double stall_swap_seconds = 0;        // the compute thread waited for this rank's shards
  double compute_busy_seconds = 0;      // of a separate device
  uint64_t sent_bytes = 0;              // to other ranks, without commits
};

class ShardedStep : public StepMemory {
 public:
  struct Options {
    ShardGrid grid;
    ShardedSchedule schedule;
    std::vector<uint64_t> unit_parameters;   // [unit], without padding
    std::vector<uint64_t> shard_parameters;  // [unit], padded
    uint64_t weight_bytes = 2;               // per parameter
    GradientSumOptions sums;
    Trace* trace = nullptr;
  };

  // All outlive the object. `manager`: made for the plan of schedule.swap. `memory`: MemoryBytes
  // for whole units, aligned to 4096, of the host or of the device of `stream`. In the latter case
  // the manager has the same device with its operations in kExchange, and so do `ranks.group` and
  // `ranks.replicas`.
  ShardedStep(Options options, SwapManager* manager, const RankGroups& ranks, TileCompute* tiles,
              const ExchangeStream& stream, char* memory);
  // Ends what is under way; also on other ranks, unless they have finished, too.
  ~ShardedStep() override;

  static uint64_t MemoryBytes(const Options& options);

  const StepSchedule& schedule() const override { return options_.schedule.compute; }
  void Enqueue(Program program, FirstRead first_read = {}) override;
  void AbandonQueued() override;
  absl::StatusOr<OpBuffers> BeginOp() override;
  void EndOp() override;
  // Returns the total over all ranks and what follows from it.
  absl::StatusOr<GradientTotal> AwaitGradients() override;
  absl::Status MeasureUpdate(const UpdateScalars& scalars, int measure) override {
    return manager_->MeasureUpdate(scalars, measure);
  }
  void AnnounceUpdate(const UpdateScalars& scalars) override;
  absl::Status Flush() override;
  absl::Status AwaitProgram() override;

  // Brackets the compute thread's own exchanges with other ranks. They count as busy time, once if
  // the actions' thread exchanges at the same time.
  void BeginExchange();
  void EndExchange();

  ShardedStats stats() const;

 private:
  void RunActions();
  // False when the step has ended, by an error or for good.
  bool AwaitAction(const ShardAction& action);
  absl::Status Take(int action);
  absl::Status Exchange(const ShardAction& action, const OpBuffers& shard);
  absl::Status Gather(const ShardAction& action, const OpBuffers& shard);
  // Counts the time that the compute thread waited for `op` (null: for the step's end), from
  // `began` to now, of which `swapping` seconds for shards.
  void CountWait(const StepOp* op, double began, double swapping)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Records a span in the trace, if there is one and the span is not empty.
  void RecordSpan(SpanKind kind, const std::function<void(Span&)>& detail, double began,
                  double ended) const;
  // On a separate device: requests notes of when the operation that is put there begins and ends.
  void NoteBegin(const StepOp& op, double wait_began, double swapping);
  void NoteEnd(const StepOp& op, int index);
  bool idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !running_ && computing_ == 0; }

  struct UnitInputs {
    char* data = nullptr;
    uint64_t bytes = 0;
  };

  const Options options_;
  SwapManager* const manager_;
  const RankGroups ranks_;
  const std::vector<ActionTraffic> traffic_;  // [action]
  const ExchangeStream stream_;
  char* const memory_;
  GradientSums sums_;

  mutable Mutex mutex_;
  CondVar changed_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Program> queued_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;  // actions of `program_` remain
  Program program_ ABSL_GUARDED_BY(mutex_) = Program::kTrain;
  int ops_done_ ABSL_GUARDED_BY(mutex_) = 0;
  int computing_ ABSL_GUARDED_BY(mutex_) = 0;  // operations that a separate device has not finished
  double op_began_ ABSL_GUARDED_BY(mutex_) = 0;  // begin of the current operation
  double op_ended_ ABSL_GUARDED_BY(mutex_) = 0;  // end of the one before
  int actions_done_ ABSL_GUARDED_BY(mutex_) = 0;
  ShardedStats stats_ ABSL_GUARDED_BY(mutex_);
  int exchanges_ ABSL_GUARDED_BY(mutex_) = 0;  // number under way, since:
  double exchanging_since_ ABSL_GUARDED_BY(mutex_) = 0;
  double swap_seconds_ ABSL_GUARDED_BY(mutex_) = 0;  // seconds that actions waited for shards
  // [unit] Where its operation reads, or writes, its inputs; null on the device.
  std::vector<UnitInputs> inputs_ ABSL_GUARDED_BY(mutex_);
  int next_op_ = 0;  // used by the compute thread alone
  std::thread thread_;
};

}  // namespace spillway
