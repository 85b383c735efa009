// Sets a run up: measures the needs of the computation, plans, opens the store, allocates the
// plan's memory, and starts the swap manager. Its content is constant until the run ends.
//
// Compute thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/cuda/cuda_optimizer_tiles.h"
#include "engine/estimate/run_plan.h"
#include "engine/estimate/step_forecast.h"
#include "engine/ranks/sharded_step.h"
#include "engine/run/run_state.h"
#include "engine/train/commit_schedule.h"
#include "engine/train/run_context.h"
#include "engine/train/write_account.h"
#include "engine/weights/frozen_in_place.h"
#include "io/base/trace.h"
#include "swap/device/arena.h"
#include "swap/mover/swap_manager.h"
#include "swap/store/swap_store.h"

namespace spillway {

class RunSetup {
 public:
  // On return nothing has been written to the store. `context`, `writes` and `trace` outlive the
  // object. Sets the store's place in `state`. kResourceExhausted of exit code 3 if the run does
  // not fit.
  static absl::StatusOr<std::unique_ptr<RunSetup>> Create(const RunContext* context,
                                                          WriteAccount* writes, Trace* trace,
                                                          RunState& state);

  const SwapPlan& plan() const { return manager_->plan(); }
  SwapManager* manager() const { return manager_.get(); }
  SwapStore* store() const { return store_.get(); }  // null: not needed
  // Provides the memory of operations.
  StepMemory* memory() const { return memory_.get(); }
  // Null for optimizers without them.
  TensorRatios* tensor_ratios() const { return optimizer_->tensor_ratios(); }
  FactoredMoments* factored_moments() const { return optimizer_->factored_moments(); }
  // Restores the optimizer's state outside the tiles from the commit.
  absl::Status RestoreOptimizer(const RunState& committed);
  ShardedStep* sharded() const { return sharded_; }  // memory() with several ranks; otherwise null
  ShardedStats exchanged() const { return sharded_ ? sharded_->stats() : ShardedStats(); }

  bool deferred() const { return deferred_; }
  int64_t evaluate_ops() const { return evaluate_ops_; }  // of an evaluation, up to the loss
  int workers() const { return workers_; }
  int kept_graphs() const { return graphs_.kept(); }
  uint64_t computing_bytes() const { return computing_bytes_; }  // peak of device memory
  // None if nothing was predicted.
  const std::optional<StepClock>& clock() const { return clock_; }
  const std::optional<StepForecast>& forecast() const { return forecast_; }
  // The schedule before the first step.
  CommitSchedule commit_schedule() const {
    return CommitSchedule(context_.options, commit_seconds_);
  }

  uint64_t peak_host_bytes() const { return host_budget_->peak_bytes(); }
  // Arenas on a separate device, in addition to computing_bytes. 0 otherwise: they are in
  // computing_bytes.
  uint64_t device_arena_bytes() const;
  // Has the whole units with several ranks: idle until the first step.
  Arena* whole_arena() const { return whole_arena_.get(); }

 private:
  RunSetup(const RunContext* context, WriteAccount* writes, Trace* trace)
      : context_(*context), writes_(*writes), trace_(trace) {}
  // The two halves of planning, before anything is allocated, and the store between them; ranks
  // agree after each.
  struct Planned;
  absl::Status PlanUntimed(Planned& planned);
  absl::Status OpenStore(const Planned& planned, RunState& state);
  absl::Status MeasureNeeds(Planned& planned) const;
  absl::Status RefuseByGuess(const Planned& planned, uint64_t working_bytes) const;
  absl::Status PlanTimed(Planned& planned);
  absl::Status TakeMemory(RunPlan& run, SwapManagerOptions manager_options);
  void LogCopied(const FrozenWeights& frozen) const;
  uint64_t BytesInPlace() const;
  void LogPlan(const RunPlan& run, int64_t steps_done) const;

  const RunContext& context_;
  WriteAccount& writes_;
  Trace* const trace_;

  bool deferred_ = false;
  int64_t evaluate_ops_ = 0;
  int workers_ = 1;
  InPlaceUnits in_place_;  // units that can be read in place; the store has those that are
  uint64_t computing_bytes_ = 0;
  GraphPlan graphs_;
  std::optional<StepClock> clock_;  // timed forecast_
  std::optional<StepForecast> forecast_;
  double commit_seconds_ = 0;  // forecast of a commit's duration

  std::unique_ptr<MemoryBudget> host_budget_;
  MemoryReservation books_;
  std::unique_ptr<Arena> host_arena_;
  std::unique_ptr<Arena> device_arena_;
  std::unique_ptr<SwapStore> store_;
  std::unique_ptr<OptimizerTiles> optimizer_;
  std::unique_ptr<SwapManager> manager_;
  std::unique_ptr<Arena> whole_arena_;    // with several ranks
  std::unique_ptr<Arena> exchange_page_;  // likewise, with a separate device
  std::unique_ptr<StepMemory> memory_;
  ShardedStep* sharded_ = nullptr;  // memory_, with several ranks
};

}  // namespace spillway
