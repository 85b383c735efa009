// A rank's part of a step whose state is sharded: whole units for what computes, from shards
// that swap, with the other ranks.
//
// A thread of its own takes the actions of the schedule in their order: brings a shard's
// weights (from wherever the plan has them) and gathers the others', sums a complete gradient
// over the ranks into the shard's sums, from where it goes to the update. The compute thread
// only waits for what its operation needs.
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

// Counters since the start; differences make a step's row.
struct ShardedStats {
  double busy_seconds = 0;              // that something was exchanged, or waited for
  double stall_collective_seconds = 0;  // compute waited for ranks
  double stall_swap_seconds = 0;        // compute waited for this rank's shards
  double compute_busy_seconds = 0;      // of a separate device
  uint64_t sent_bytes = 0;              // to other ranks, commits left out
};

class ShardedStep : public StepMemory {
 public:
  struct Options {
    ShardGrid grid;
    ShardedSchedule schedule;
    std::vector<uint64_t> unit_parameters;   // [unit], without padding
    std::vector<uint64_t> shard_parameters;  // [unit], padded
    uint64_t weight_bytes = 2;               // of a parameter
    GradientSumOptions sums;
    Trace* trace = nullptr;
  };

  // All outlive it. `manager`: of the plan of schedule.swap. `memory`: MemoryBytes, in which
  // units are whole; aligned to 4096. It is the host's, or that of the device of `stream`: then
  // the manager's device is the same one, its operations are in kExchange, and so is what
  // `ranks.group` and `ranks.replicas` exchange.
  ShardedStep(Options options, SwapManager* manager, const RankGroups& ranks, TileCompute* tiles,
              const ExchangeStream& stream, char* memory);
  // Ends what is under way; on other ranks too, unless they had no more to say either.
  ~ShardedStep() override;

  static uint64_t MemoryBytes(const Options& options);

  const StepSchedule& schedule() const override { return options_.schedule.compute; }
  void Enqueue(Program program, FirstRead first_read = {}) override;
  void AbandonQueued() override;
  absl::StatusOr<OpBuffers> BeginOp() override;
  void EndOp() override;
  // The sum and the judgement of all ranks.
  absl::StatusOr<GradientTotal> AwaitGradients() override;
  absl::Status MeasureUpdate(const UpdateScalars& scalars, int measure) override {
    return manager_->MeasureUpdate(scalars, measure);
  }
  void AnnounceUpdate(const UpdateScalars& scalars) override;
  absl::Status Flush() override;
  absl::Status AwaitProgram() override;

  // Around what the compute thread itself says to other ranks: it counts as busy time, which is
  // counted once where the actions' thread exchanges something, too.
  void BeginExchange();
  void EndExchange();

  ShardedStats stats() const;

 private:
  void RunActions();
  // False when the step is at an end, by an error or for good.
  bool AwaitAction(const ShardAction& action);
  absl::Status Take(int action);
  absl::Status Exchange(const ShardAction& action, const OpBuffers& shard);
  absl::Status Gather(const ShardAction& action, const OpBuffers& shard);
  // Compute has waited from `began` to now for what `op` needs (null: for the step's end), of which
  // for shards `swapping` seconds.
  void CountWait(const StepOp* op, double began, double swapping)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A span in the trace, where there is one and it has any length.
  void RecordSpan(SpanKind kind, const std::function<void(Span&)>& detail, double began,
                  double ended) const;
  // On a separate device: notes of when the operation that is put there begins and ends.
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
  bool running_ ABSL_GUARDED_BY(mutex_) = false;  // actions of `program_` are left
  Program program_ ABSL_GUARDED_BY(mutex_) = Program::kTrain;
  int ops_done_ ABSL_GUARDED_BY(mutex_) = 0;
  int computing_ ABSL_GUARDED_BY(mutex_) = 0;    // operations that a separate device has yet to do
  double op_began_ ABSL_GUARDED_BY(mutex_) = 0;  // the one that it is at
  double op_ended_ ABSL_GUARDED_BY(mutex_) = 0;  // the one before
  int actions_done_ ABSL_GUARDED_BY(mutex_) = 0;
  ShardedStats stats_ ABSL_GUARDED_BY(mutex_);
  int exchanges_ ABSL_GUARDED_BY(mutex_) = 0;  // under way, since:
  double exchanging_since_ ABSL_GUARDED_BY(mutex_) = 0;
  double swap_seconds_ ABSL_GUARDED_BY(mutex_) = 0;  // that actions waited for shards
  // [unit] Where its operation finds, or leaves, its inputs; null on the device.
  std::vector<UnitInputs> inputs_ ABSL_GUARDED_BY(mutex_);
  int next_op_ = 0;  // of the compute thread
  std::thread thread_;
};

}  // namespace spillway
