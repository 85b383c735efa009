// How a trainer sets itself up: budgets, plan, store, arenas, manager.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/cuda/cuda_optimizer_tiles.h"
#include "engine/estimate/rank_probe.h"
#include "engine/estimate/run_forecast.h"
#include "engine/estimate/run_plan.h"
#include "engine/machine/memory_limits.h"
#include "engine/ranks/shard_plan.h"
#include "engine/train/trainer.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {

// From before the plan is timed to what it is made of.
struct Trainer::Planned {
  DryRun dry_run;
  RunPlanInput input;
  RunPlan run;
};

absl::Status Trainer::PlanUntimed(Planned& planned) {
  absl::StatusOr<DryRun> dry_run = compute_->MeasureNeeds();
  if (absl::IsResourceExhausted(dry_run.status())) {
    return DoesNotFitError(
        absl::StrCat("computing does not fit this machine's memory: ", dry_run.status().message(),
                     ", or take a smaller --micro-batch or --seq-len"));
  }
  RETURN_IF_ERROR(dry_run.status());
  planned.dry_run = *std::move(dry_run);

  RunPlanInput& input = planned.input;
  input.tile_parameters = storage_->committed_tile_parameters() > 0
                              ? storage_->committed_tile_parameters()
                              : options_.tile_parameters;
  input.copies = storage_->copies() != nullptr;
  input.separate_device = device_ != nullptr;
  input.memory = planned.dry_run.memory;
  input.graphs = planned.dry_run.graphs;
  ASSIGN_OR_RETURN(planned.run, PlanRun(model_, options_, input));
  const RunPlan& run = planned.run;
  if (!run.swaps) return RefusalOf(run);
  RETURN_IF_ERROR(CheckWrites(*run.swaps));
  deferred_ = run.update == UpdateMode::kDeferred;
  const StepSchedule& computed = run.shards ? run.shards->schedule.compute : run.swaps->schedule;
  for (const StepOp& op : computed.ops) {
    ++evaluate_ops_;
    if (op.kind == OpKind::kLoss) break;
  }
  if (run.swaps->any_nvme() || !options_.no_commit || storage_->committed()) {
    ASSIGN_OR_RETURN(store_, storage_->OpenStore(run.swaps->layout, run.swaps->spill_room, state_));
    return absl::OkStatus();
  }
  return storage_->OpenNone();
}

// Measured in the store's place, and before the arenas are there, whose memory it uses. What
// is in the store stays the same.
absl::Status Trainer::PlanTimed(Planned& planned) {
  auto& [dry_run, input, run] = planned;
  input.clock =
      MeasureClock(*run.swaps, options_, WithoutRecompute(dry_run, run.graphs), workers_, device_);
  CollectiveRates rates;
  if (ranks_.world != nullptr) {
    RETURN_IF_ERROR(TakeFirstRanksClock(*ranks_.world, input.clock, dry_run));
    input.graphs = dry_run.graphs;
    if (input.clock) {
      CollectiveProbe probe;
      probe.sums = run.shards->sums;
      probe.optimizer = options_.optimizer;
      probe.dtype = options_.dtype;
      probe.layout = run.swaps->layout;
      probe.memory_bytes = run.whole_bytes;
      probe.device = device_;
      ASSIGN_OR_RETURN(rates, FindCollectiveRates(probe, ranks_));
    }
  }
  if (!input.clock) return absl::OkStatus();
  TimeOperations(run, dry_run, rates, *input.clock);
  ASSIGN_OR_RETURN(run, PlanRun(model_, options_, input));
  RETURN_IF_ERROR(CheckWrites(*run.swaps));
  // Timed, the plan may leave room for other graphs.
  TimeOperations(run, dry_run, rates, *input.clock);
  clock_ = input.clock;
  forecast_ = ForecastRun(*run.swaps, *clock_);
  return absl::OkStatus();
}

absl::Status Trainer::PlanAndOpen(MemoryBudget* device_budget) {
  SwapManagerOptions manager_options;
  manager_options.io = options_.io;
  manager_options.io.trace = recorder_->trace();
  manager_options.device = device_;
  if (options_.ranks > 1) manager_options.ops_stream = StreamId::kExchange;
  if (options_.update_threads > 0) manager_options.workers = options_.update_threads;
  workers_ = manager_options.workers;
  Planned planned;
  // What they say to each other next would be misheard by a rank that has failed.
  RETURN_IF_ERROR(AgreeAll(ranks_.world, PlanUntimed(planned)));
  RETURN_IF_ERROR(PlanTimed(planned));
  RunPlan& run = planned.run;
  const StateLayout layout = run.swaps->layout;
  graphs_ = run.graphs;
  computing_bytes_ = run.computing_bytes();
  compute_->KeepGraphs(graphs_.keeps);
  SwapPlan& swaps = *run.swaps;

  host_budget_ = std::make_unique<MemoryBudget>("host", run.host_limit_bytes);
  if (run.shards && device_ != nullptr) {
    ASSIGN_OR_RETURN(exchange_page_,
                     Arena::Create(ExchangeStream::kPageBytes, host_budget_.get(), device_));
    run.book_bytes -= exchange_page_->size_bytes();
  }
  ASSIGN_OR_RETURN(books_, host_budget_->Reserve(run.book_bytes, "the swap manager's books"));
  ASSIGN_OR_RETURN(host_arena_, Arena::Create(swaps.host_arena_bytes, host_budget_.get(), device_));
  ASSIGN_OR_RETURN(device_arena_,
                   device_ ? Arena::CreateOn(device_, swaps.device_arena_bytes, device_budget)
                           : Arena::Create(swaps.device_arena_bytes, device_budget));
  // On any other device, and in the host's memory, these compute as OptimizerTiles do.
  optimizer_ = std::make_unique<CudaOptimizerTiles>(
      options_.optimizer, options_.dtype, layout,
      ShardRanges(DecayedRanges(model_, options_.optimizer.decay), run.whole_layout, grid_));
  ASSIGN_OR_RETURN(manager_,
                   SwapManager::Create(std::move(swaps), store_.get(), host_arena_.get(),
                                       device_arena_.get(), optimizer_.get(), manager_options));
  if (run.shards) {
    ExchangeStream stream;
    if (device_ == nullptr) {
      ASSIGN_OR_RETURN(whole_arena_, Arena::Create(run.whole_bytes, device_budget));
    } else {
      ASSIGN_OR_RETURN(whole_arena_, Arena::CreateOn(device_, run.whole_bytes, device_budget));
      stream = ExchangeStream(device_, exchange_page_->data());
    }
    run.shards->trace = recorder_->trace();
    auto sharded = std::make_unique<ShardedStep>(*std::move(run.shards), manager_.get(), ranks_,
                                                 optimizer_.get(), stream, whole_arena_->data());
    sharded_ = sharded.get();
    memory_ = std::move(sharded);
  } else {
    memory_ = std::make_unique<LocalStep>(manager_.get());
  }
  LogInfo(absl::StrCat(
      "plan for ", model_.parameter_count(), " parameters in ", model_.units.size(), " units\n",
      plan().Summary(), graphs_.Summary(), "\n  computing  ", FormatBytes(computing_bytes_),
      " of device memory at its peak\n", "  budgets    ", FormatBytes(run.device_limit_bytes),
      " device, ", FormatBytes(run.host_limit_bytes), " host",
      forecast_ ? "\n  forecast   " + DescribeForecast(*forecast_) : ""));
  return absl::OkStatus();
}

}  // namespace spillway
