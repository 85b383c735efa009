#include "engine/train/run_setup.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/estimate/plan_text.h"
#include "engine/estimate/rank_probe.h"
#include "engine/estimate/run_forecast.h"
#include "engine/machine/compute_precision.h"
#include "engine/machine/core_limits.h"
#include "engine/machine/memory_limits.h"
#include "engine/numeric/optimizer_state.h"
#include "engine/ranks/shard_plan.h"
#include "engine/run/written_bytes.h"
#include "engine/weights/frozen_in_place.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {

// State between the untimed plan and the allocation.
struct RunSetup::Planned {
  DryRun dry_run;
  RunPlanInput input;
  RunPlan run;
  FrozenWeights frozen;
};

namespace {

// A dry run estimated to be shorter is always made, even if the run is far too large: its result is
// exact.
constexpr double kQuickDryRunSeconds = 2;
// A run that does not fit with this part of the estimate is far too large: estimates are within a
// quarter for GPT-2.
constexpr uint64_t kGuessedTimes = 2;

// The dtype in which matrices are multiplied, and why; "" if it is the run's by default.
std::string OtherProducts(const TrainOptions& options) {
  std::string why = options.compute_reason;
  if (options.products() == Products() && why.empty()) return "";
  const bool on_gpu = options.device != "cpu";
  if (why.empty()) why = ComputeRemark(*options.compute, options.dtype, on_gpu);
  if (options.layers_in_fp8 && why.empty() && !on_gpu) why = "emulated in fp32";
  return absl::StrCat(options.compute_name(), why.empty() ? "" : ": ", why);
}

// Duration of a commit: writing the state that steps leave in memory. 0 if the disk's rate is not
// known.
double CommitSeconds(const SwapPlan& plan, const InPlaceUnits& in_place, const DiskRates& disk) {
  if (disk.write_bytes_per_second <= 0) return 0;
  const WritePlan writes = PlanWrites(plan, /*fresh=*/false, /*commits=*/true, in_place);
  return SecondsAt(disk.write_bytes_per_second,
                   static_cast<double>(writes.end_bytes - writes.step_bytes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunSetup>> RunSetup::Create(const RunContext* context,
                                                           WriteAccount* writes, Trace* trace,
                                                           RunState& state) {
  auto setup = std::unique_ptr<RunSetup>(new RunSetup(context, writes, trace));
  const TrainOptions& options = context->options;
  SwapManagerOptions manager_options;
  manager_options.io = options.io;
  manager_options.io.trace = trace;
  manager_options.device = context->device;
  if (options.ranks > 1) manager_options.ops_stream = StreamId::kExchange;
  setup->workers_ = UpdateWorkers(options, UsableCores(), context->device != nullptr);
  manager_options.workers = setup->workers_;
  Planned planned;
  // A rank that has failed would misread the next exchanges of the others.
  Collectives* const world = context->ranks.world;
  RETURN_IF_ERROR(AgreeAll(world, setup->PlanUntimed(planned)));
  RETURN_IF_ERROR(writes->Check(*planned.run.swaps, setup->in_place_));
  RETURN_IF_ERROR(AgreeAll(world, setup->OpenStore(planned, state)));
  RETURN_IF_ERROR(AgreeAll(world, setup->PlanTimed(planned)));
  RETURN_IF_ERROR(writes->Check(*planned.run.swaps, setup->in_place_));
  RETURN_IF_ERROR(setup->TakeMemory(planned.run, manager_options));
  setup->LogPlan(planned.run, state.step);
  return setup;
}

// Skips the measurement of a run that is far too large, unless it is fast, as on a GPU.
absl::Status RunSetup::MeasureNeeds(Planned& planned) const {
  const TrainOptions& options = context_.options;
  const std::optional<ComputeGuess>& guess = context_.guess;
  if (guess && context_.device == nullptr && guess->dry_run_seconds > kQuickDryRunSeconds) {
    RETURN_IF_ERROR(RefuseByGuess(planned, guess->memory.working_bytes / kGuessedTimes));
  }
  absl::StatusOr<DryRun> dry_run = context_.compute->MeasureNeeds();
  if (!absl::IsResourceExhausted(dry_run.status())) {
    RETURN_IF_ERROR(dry_run.status());
    planned.dry_run = *std::move(dry_run);
    return absl::OkStatus();
  }
  if (guess) RETURN_IF_ERROR(RefuseByGuess(planned, guess->memory.working_bytes));
  return DoesNotFitError(absl::StrCat(
      "this run does not fit --device-memory ", FormatBytes(options.device_memory_bytes),
      " and --host-memory ", FormatBytes(options.host_memory_bytes),
      ", or this machine's memory: computing one micro-batch before step 1 takes more (",
      dry_run.status().message(), "), or take a smaller --micro-batch or --seq-len"));
}

// OK if the estimate fits with `working_bytes`. The refusal names the needs of the whole estimate.
absl::Status RunSetup::RefuseByGuess(const Planned& planned, uint64_t working_bytes) const {
  RunPlanInput input = planned.input;
  input.memory = context_.guess->memory;
  input.memory.working_bytes = working_bytes;
  ASSIGN_OR_RETURN(RunPlan run, PlanRun(context_.model, context_.options, input));
  if (run.swaps) return absl::OkStatus();
  if (working_bytes < context_.guess->memory.working_bytes) {
    input.memory = context_.guess->memory;
    ASSIGN_OR_RETURN(run, PlanRun(context_.model, context_.options, input));
  }
  return RefusalOf(run, /*measured=*/false);
}

absl::Status RunSetup::PlanUntimed(Planned& planned) {
  RunStorage& storage = *context_.storage;
  const TrainOptions& options = context_.options;
  RunPlanInput& input = planned.input;
  input.tile_parameters = storage.committed_tile_parameters() > 0
                              ? storage.committed_tile_parameters()
                              : options.tile_parameters;
  input.copies = storage.copies() != nullptr;
  FrozenWeights& frozen = planned.frozen;
  if (context_.weights != nullptr) {
    frozen = FindFrozenInPlace(context_.model, GridOf(options), options.dtype, *context_.weights,
                               options.output);
  }
  in_place_ = frozen.in_place;
  input.in_place = in_place_.any() || storage.committed_in_place().any();
  input.separate_device = context_.device != nullptr;
  RETURN_IF_ERROR(MeasureNeeds(planned));
  input.memory = planned.dry_run.memory;
  input.graphs = planned.dry_run.graphs;
  ASSIGN_OR_RETURN(planned.run, PlanRun(context_.model, options, input));
  const RunPlan& run = planned.run;
  if (!run.swaps) return RefusalOf(run);
  RETURN_IF_ERROR(
      CheckMachineMemory(run, input.separate_device,
                         MachineMemoryBytes() / static_cast<uint64_t>(options.ranks_here)));
  deferred_ = run.update == UpdateMode::kDeferred;
  const StepSchedule& computed = run.shards ? run.shards->schedule.compute : run.swaps->schedule;
  for (const StepOp& op : computed.ops) {
    ++evaluate_ops_;
    if (op.kind == OpKind::kLoss) break;
  }
  return writes_.ReadBefore();
}

absl::Status RunSetup::OpenStore(const Planned& planned, RunState& state) {
  RunStorage& storage = *context_.storage;
  const RunPlan& run = planned.run;
  if (run.swaps->any_nvme() || !context_.options.no_commit || storage.committed()) {
    ASSIGN_OR_RETURN(store_,
                     storage.OpenStore(run.swaps->layout, run.swaps->spill_room, state, in_place_));
    if (!storage.committed()) LogCopied(planned.frozen);
    return absl::OkStatus();
  }
  return storage.OpenNone();
}

// Measures the disk in the store's place before the arenas, whose memory it uses, exist. The
// content of the store does not change.
absl::Status RunSetup::PlanTimed(Planned& planned) {
  auto& [dry_run, input, run, frozen] = planned;
  const TrainOptions& options = context_.options;
  const bool any_in_place = store_ != nullptr && store_->in_place() != nullptr;
  input.clock =
      MeasureClock(*run.swaps, options, WithoutRecompute(dry_run, run.graphs), workers_,
                   any_in_place ? store_->in_place()->places() : InPlaceUnits(), context_.device);
  CollectiveRates rates;
  if (context_.ranks.world != nullptr) {
    RETURN_IF_ERROR(TakeFirstRanksClock(*context_.ranks.world, input.clock, dry_run));
    input.graphs = dry_run.graphs;
    if (input.clock) {
      CollectiveProbe probe;
      probe.sums = run.shards->sums;
      probe.optimizer = options.optimizer;
      probe.dtype = options.dtype;
      probe.layout = run.swaps->layout;
      probe.memory_bytes = run.whole_bytes;
      probe.device = context_.device;
      ASSIGN_OR_RETURN(rates, FindCollectiveRates(probe, context_.ranks));
    }
  }
  if (!input.clock) return absl::OkStatus();
  TimeOperations(run, dry_run, rates, *input.clock);
  ASSIGN_OR_RETURN(run, PlanRun(context_.model, options, input));
  // The timed plan may leave room for other graphs.
  TimeOperations(run, dry_run, rates, *input.clock);
  clock_ = input.clock;
  forecast_ = ForecastRun(*run.swaps, *clock_);
  commit_seconds_ = CommitSeconds(*run.swaps, in_place_, clock_->disk);
  return absl::OkStatus();
}

void RunSetup::LogCopied(const FrozenWeights& frozen) const {
  if (frozen.packed_bytes > 0) {
    LogInfo(absl::StrCat("frozen layers are kept in ",
                         std::string(PackedFormatName(context_.options.freeze.packing.format)),
                         ", ", FormatBytes(frozen.packed_bytes), ", written once into swap"));
  }
  const uint64_t bytes = frozen.copied_bytes;
  if (bytes == 0) return;
  LogInfo(absl::StrCat(
      FormatBytes(bytes),
      " of the frozen weights are copied once into swap: in the model's files they "
      "are not ",
      std::string(DTypeName(context_.options.dtype)), ", or these files are OUTPUT's"));
}

absl::Status RunSetup::TakeMemory(RunPlan& run, SwapManagerOptions manager_options) {
  manager_options.in_place_bytes = run.in_place_bytes;
  const TrainOptions& options = context_.options;
  Device* const device = context_.device;
  const StateLayout layout = run.swaps->layout;
  graphs_ = run.graphs;
  computing_bytes_ = run.computing_bytes();
  context_.compute->KeepGraphs(graphs_.keeps);
  SwapPlan& swaps = *run.swaps;

  const auto device_arena = [&](uint64_t bytes) {
    return device != nullptr ? Arena::CreateOn(device, bytes, context_.device_budget)
                             : Arena::Create(bytes, context_.device_budget);
  };
  host_budget_ = std::make_unique<MemoryBudget>("host", run.host_limit_bytes);
  if (run.shards && device != nullptr) {
    ASSIGN_OR_RETURN(exchange_page_,
                     Arena::Create(ExchangeStream::kPageBytes, host_budget_.get(), device));
    run.book_bytes -= exchange_page_->size_bytes();
  }
  ASSIGN_OR_RETURN(books_, host_budget_->Reserve(run.book_bytes, "the swap manager's books"));
  ASSIGN_OR_RETURN(host_arena_, Arena::Create(swaps.host_arena_bytes, host_budget_.get(), device));
  ASSIGN_OR_RETURN(device_arena_, device_arena(swaps.device_arena_bytes));
  const ShardGrid grid = GridOf(options);
  std::vector<uint64_t> first_parameters;
  for (const UnitLayout& unit : run.whole_layout.units()) {
    first_parameters.push_back(grid.size == 1 ? 0 : grid.ShardBegin(unit.parameters));
  }
  // On another device, and in the host's memory, these compute like OptimizerTiles.
  optimizer_ = std::make_unique<CudaOptimizerTiles>(
      options.optimizer, options.dtype, layout,
      ShardRanges(DecayedRanges(context_.model, options.optimizer.decay), run.whole_layout, grid),
      UpdateRounding{options.seed, first_parameters});
  if (MeasuresFirst(options.optimizer)) {
    auto ratios = std::make_unique<TensorRatios>(
        ShardTensors(DecayedRanges(context_.model, OptimizerSpec::Decay::kAll), run.whole_layout,
                     layout, grid),
        grid.replicas(), TensorRatioOf(options.optimizer));
    std::unique_ptr<FactoredMoments> moments;
    if (FactorsMoments(options.optimizer)) {
      moments = std::make_unique<FactoredMoments>(FactoredTensors(context_.model),
                                                  std::move(first_parameters), options.optimizer);
    }
    optimizer_->SetMeasured(std::move(ratios), std::move(moments));
  }
  ASSIGN_OR_RETURN(manager_,
                   SwapManager::Create(std::move(swaps), store_.get(), host_arena_.get(),
                                       device_arena_.get(), optimizer_.get(), manager_options));
  if (!run.shards) {
    memory_ = std::make_unique<LocalStep>(manager_.get());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(whole_arena_, device_arena(run.whole_bytes));
  const ExchangeStream stream =
      device != nullptr ? ExchangeStream(device, exchange_page_->data()) : ExchangeStream();
  run.shards->trace = trace_;
  auto sharded =
      std::make_unique<ShardedStep>(*std::move(run.shards), manager_.get(), context_.ranks,
                                    optimizer_.get(), stream, whole_arena_->data());
  sharded_ = sharded.get();
  memory_ = std::move(sharded);
  return absl::OkStatus();
}

absl::Status RunSetup::RestoreOptimizer(const RunState& committed) {
  FactoredMoments* const moments = factored_moments();
  return moments == nullptr ? absl::OkStatus() : moments->Restore(committed.factored_moments);
}

// Bytes of weights that are read in the model's own files and never copied.
uint64_t RunSetup::BytesInPlace() const {
  uint64_t bytes = 0;
  for (int unit = 0; unit < plan().layout.num_units(); ++unit) {
    if (store_ != nullptr && store_->IsInPlace(unit)) bytes += plan().layout.UnitBytes(unit);
  }
  return bytes;
}

void RunSetup::LogPlan(const RunPlan& run, int64_t steps_done) const {
  PlanFacts facts;
  facts.parameters = context_.model.parameter_count();
  facts.trained_parameters = context_.model.trained_parameter_count();
  facts.units = context_.model.num_computing();
  facts.in_place_bytes = BytesInPlace();
  facts.device_limit_bytes = run.device_limit_bytes;
  facts.host_limit_bytes = run.host_limit_bytes;
  facts.computing_bytes = computing_bytes_;
  facts.products = OtherProducts(context_.options);
  facts.forecast = forecast_;
  facts.commits = commit_schedule().Describe();
  facts.steps = context_.options.steps - steps_done;
  LogInfo(PlanText(plan(), facts));
  if (context_.options.explain) LogInfo(ExplainedPlan(plan(), graphs_, facts));
}

uint64_t RunSetup::device_arena_bytes() const {
  if (context_.device == nullptr) return 0;
  return device_arena_->size_bytes() + (whole_arena_ ? whole_arena_->size_bytes() : 0);
}

}  // namespace spillway
