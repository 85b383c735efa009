#include "engine/estimate/run_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/estimate/run_forecast.h"
#include "engine/machine/memory_limits.h"
#include "engine/numeric/optimizer_state.h"
#include "engine/ranks/shard_plan.h"
#include "io/base/check.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "swap/forecast/step_simulation.h"
#include "swap/mover/in_place_reads.h"
#include "swap/mover/whole_store.h"

namespace spillway {
namespace {

TierChoice TierOf(Offload offload) {
  switch (offload) {
    case Offload::kAuto:
      return TierChoice::kAuto;
    case Offload::kNone:
      return TierChoice::kDevice;
    case Offload::kCpu:
      return TierChoice::kHost;
    case Offload::kNvme:
      return TierChoice::kNvme;
  }
  return TierChoice::kAuto;
}

// The swap manager's tables beside the arena: extents, checksums, requests, the manifest's text;
// with copies of commits also their tables and the tiles under way.
uint64_t BookBytes(const StateLayout& layout, bool copies) {
  uint64_t tiles = 0;
  for (int unit = 0; unit < layout.num_units(); ++unit) tiles += layout.NumTiles(unit);
  const uint64_t books = 2 * kMiB + tiles * 1024;
  return copies ? 2 * books + CopyMemoryBytes(layout, kBesideTrainingBytes) : books;
}

// [unit] Whether its gradient is the sum of at most two terms: one per micro-batch of every
// operation that adds to it, and one per chunk of the loss.
std::vector<bool> FewTerms(const StepSchedule& schedule, size_t units, int64_t micro_batches,
                           int64_t loss_chunks) {
  std::vector<int64_t> terms(units, 0);
  for (const StepOp& op : schedule.ops) {
    for (int unit : op.gradients) {
      terms[unit] += micro_batches * (op.kind == OpKind::kLoss ? loss_chunks : 1);
    }
  }
  std::vector<bool> few;
  for (int64_t each : terms) few.push_back(each <= 2);
  return few;
}

uint64_t Less(uint64_t limit, uint64_t taken) { return limit > taken ? limit - taken : 0; }

}  // namespace

absl::StatusOr<UpdateMode> ChooseUpdate(const TrainOptions& options) {
  // Without clipping and loss scale, the update's scalars are known before the step's end.
  const bool needs_total = options.clip > 0 || options.dtype == DType::kFloat16;
  if (MeasuresFirst(options.optimizer)) {
    if (options.update != UpdateChoice::kImmediate) return UpdateMode::kDeferred;
    return absl::InvalidArgumentError(absl::StrCat(
        "--update immediate cannot be had with --optimizer ", OptimizerName(options.optimizer.kind),
        ", which measures all tensors before the first update: leave it out"));
  }
  switch (options.update) {
    case UpdateChoice::kAuto:
      return needs_total ? UpdateMode::kDeferred : UpdateMode::kImmediate;
    case UpdateChoice::kDeferred:
      return UpdateMode::kDeferred;
    case UpdateChoice::kImmediate:
      break;
  }
  if (needs_total) {
    return absl::InvalidArgumentError(
        "--update immediate cannot be had with clipping or fp16, which need the norm of all "
        "gradients before the first update: use --clip 0 with bf16 or fp32, or --update deferred");
  }
  return UpdateMode::kImmediate;
}

DryRun WithoutRecompute(DryRun recomputed, const GraphPlan& graphs) {
  for (size_t unit = 0; unit < recomputed.graphs.seconds_saved.size(); ++unit) {
    if (graphs.keeps[unit]) {
      recomputed.backward_seconds[unit] -= recomputed.graphs.seconds_saved[unit];
    }
  }
  return recomputed;
}

void TimeOperations(const RunPlan& run, const DryRun& recomputed, const CollectiveRates& rates,
                    StepClock& clock) {
  SPILLWAY_CHECK(run.swaps.has_value());
  const DryRun dry_run = WithoutRecompute(recomputed, run.graphs);
  if (!run.shards) {
    clock.op_seconds = OpSeconds(run.swaps->schedule, dry_run);
    if (dry_run.rows_looked_up > 0) {
      // Assumes that half of the rows are distinct, and spread evenly over the tiles.
      const double tiles = run.swaps->layout.NumTiles(0);
      clock.first_read_share = 1 - std::exp(-0.5 * dry_run.rows_looked_up / tiles);
    }
    return;
  }
  const ShardedSchedule& schedule = run.shards->schedule;
  clock.op_seconds.clear();
  clock.collective =
      ClockOfRanks(schedule, run.shards->sums, OpSeconds(schedule.compute, dry_run), rates);
}

absl::StatusOr<RunPlan> PlanRun(const ModelDescription& model, const TrainOptions& options,
                                const RunPlanInput& input) {
  RunPlan plan;
  ASSIGN_OR_RETURN(plan.update, ChooseUpdate(options));
  // The order of allocations differs slightly from the dry run's.
  const uint64_t working = input.memory.working_bytes;
  plan.compute_bytes = working + working / kActivationMargin + 4 * kMiB;
  PlanRequest& request = plan.request;
  plan.whole_layout = DescribeState(model, options.optimizer, options.dtype, input.tile_parameters);
  request.layout = plan.whole_layout;
  request.schedule =
      BuildTrainSchedule(DescribeSchedule(model), plan.update, MeasuresOf(options.optimizer));
  request.weights = TierOf(options.offload_param);
  request.optimizer = TierOf(options.offload_optimizer);
  request.activations = TierOf(options.offload_activations);
  request.activation_bytes = input.memory.input_bytes;
  // Parts of units have no inputs.
  if (!request.activation_bytes.empty()) request.activation_bytes.resize(model.units.size(), 0);
  request.input_in_flight_bytes = input.memory.in_flight_bytes;
  if (options.ranks == 1 && !input.separate_device) {
    request.rounded_sums = FewTerms(request.schedule, model.units.size(), options.accumulate,
                                    input.memory.loss_chunks);
  }
  if (options.ranks > 1) {
    plan.shards = PlanShards(plan.whole_layout, request.schedule, options, input.separate_device);
    plan.whole_bytes = ShardedStep::MemoryBytes(*plan.shards);
    request.layout = ShardLayout(plan.whole_layout, plan.shards->grid);
    request.schedule = plan.shards->schedule.swap;
  }
  request.has_storage = !options.swap_paths.empty();
  request.separate_device = input.separate_device;
  request.clock = input.clock;
  request.deferred_share = options.deferred_share;
  // Immediate updates were requested, so none are deferred.
  if (options.update == UpdateChoice::kImmediate) request.deferred_share = 0;
  if (options.update_device == UpdateDevice::kGpu && !input.separate_device) {
    return absl::InvalidArgumentError(
        "--update-device gpu needs a GPU to compute on, and this run computes on the CPU: take "
        "--device cuda, or leave --update-device out");
  }
  if (options.update_device == UpdateDevice::kGpu && MeasuresFirst(options.optimizer)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--update-device gpu cannot be had with --optimizer ",
        OptimizerName(options.optimizer.kind),
        ", which there are no kernels for: leave it out, and the CPU's threads update"));
  }
  if (options.update_device != UpdateDevice::kAuto) {
    request.device_update_share = options.update_device == UpdateDevice::kGpu ? 1 : 0;
  }
  plan.device_limit_bytes = options.device_memory_bytes;
  plan.host_limit_bytes = options.host_memory_bytes;
  request.device_bytes = Less(plan.device_limit_bytes, plan.compute_bytes + plan.whole_bytes);
  uint64_t books = BookBytes(request.layout, input.copies);
  if (FactorsMoments(options.optimizer)) {
    books += FactoredMoments::BytesOf(FactoredTensors(model), input.copies);
  }
  if (plan.shards && input.separate_device) books += ExchangeStream::kPageBytes;
  const auto plan_swaps = [&](uint64_t in_place_bytes) -> absl::Status {
    plan.in_place_bytes = in_place_bytes;
    plan.book_bytes = books + in_place_bytes;
    request.host_bytes = Less(plan.host_limit_bytes, plan.book_bytes);
    auto swaps = PlanByClock(request);
    if (absl::IsInvalidArgument(swaps.status())) return swaps.status();
    const bool base_fits = plan.device_limit_bytes >= plan.compute_bytes + plan.whole_bytes &&
                           plan.host_limit_bytes >= plan.book_bytes;
    if (swaps.ok() && base_fits) plan.swaps = *std::move(swaps);
    return absl::OkStatus();
  };
  uint64_t wanted = 0;
  if (input.in_place) {
    plan.least_in_place_bytes = InPlaceReads::MemoryBytes(request.layout, 0);
    wanted =
        InPlaceReads::MemoryBytes(request.layout, InPlaceReads::MostBytes(plan.host_limit_bytes));
  }
  RETURN_IF_ERROR(plan_swaps(wanted));
  if (!plan.swaps && wanted > plan.least_in_place_bytes) {
    RETURN_IF_ERROR(plan_swaps(plan.least_in_place_bytes));
  }
  const int computing = model.num_computing();
  plan.graphs.keeps.assign(computing, false);
  if (plan.swaps && options.recompute == Recompute::kAuto) {
    const auto& inputs = plan.swaps->activations;
    plan.graphs = PlanGraphs({inputs.begin(), inputs.begin() + computing}, input.graphs,
                             Less(request.device_bytes, plan.swaps->device_bytes()));
  }
  return plan;
}

RunMinimums SmallestRunBudgets(const RunPlan& plan) {
  const auto pairs = SmallestBudgets(plan.request);
  SPILLWAY_CHECK(pairs.ok() && !pairs->empty());  // otherwise there would be no RunPlan
  RunMinimums minimums;
  const auto lower = [](std::optional<uint64_t>& least, uint64_t value) {
    if (!least || value < *least) least = value;
  };
  const uint64_t books = plan.book_bytes - plan.in_place_bytes + plan.least_in_place_bytes;
  uint64_t least_sum = UINT64_MAX;
  for (const BudgetPair& pair : *pairs) {
    const uint64_t host = pair.host_bytes + books;
    const uint64_t device = pair.device_bytes + plan.compute_bytes + plan.whole_bytes;
    if (device <= plan.device_limit_bytes) lower(minimums.host_bytes, host);
    if (host <= plan.host_limit_bytes) lower(minimums.device_bytes, device);
    if (host + device >= least_sum) continue;
    least_sum = host + device;
    minimums.pair = {host, device};
  }
  return minimums;
}

absl::Status RefusalOf(const RunPlan& plan, bool measured) {
  SPILLWAY_CHECK(!plan.swaps);
  const RunMinimums minimums = SmallestRunBudgets(plan);
  std::string text = absl::StrCat(
      "this run does not fit --device-memory ", FormatBytes(plan.device_limit_bytes),
      " and --host-memory ", FormatBytes(plan.host_limit_bytes),
      measured ? ": it needs at least --device-memory " : ": it needs about --device-memory ",
      FormatBytesForFlag(minimums.pair.device_bytes), " and --host-memory ",
      FormatBytesForFlag(minimums.pair.host_bytes));
  const auto alone = [&](const std::optional<uint64_t>& bytes, uint64_t in_pair, const char* flag) {
    if (!bytes || *bytes == in_pair) return;
    absl::StrAppend(&text, ", or ", flag, " ", FormatBytesForFlag(*bytes),
                    " with the other as it is");
  };
  alone(minimums.host_bytes, minimums.pair.host_bytes, "--host-memory");
  alone(minimums.device_bytes, minimums.pair.device_bytes, "--device-memory");
  const bool all_kept = plan.request.activations == TierChoice::kDevice;
  absl::StrAppend(
      &text, " (computing takes ", measured ? "" : "about ", FormatBytes(plan.compute_bytes),
      " of the device's",
      plan.whole_bytes > 0 ? absl::StrCat(", whole units ", FormatBytes(plan.whole_bytes)) : "",
      measured ? "" : ", guessed from the model's shape",
      "; a smaller --micro-batch or --seq-len takes less",
      all_kept ? "; without --offload-activations none activations can live elsewhere" : "",
      plan.request.has_storage ? ")" : "; with --swap PATH state can live on NVMe)");
  return DoesNotFitError(text);
}

absl::Status CheckMachineMemory(const RunPlan& plan, bool separate_device, uint64_t machine_bytes) {
  SPILLWAY_CHECK(plan.swaps.has_value());
  const uint64_t host = plan.swaps->host_arena_bytes + plan.book_bytes;
  const uint64_t device =
      std::min(plan.device_limit_bytes,
               plan.computing_bytes() + plan.whole_bytes + plan.swaps->device_arena_bytes);
  const uint64_t needed = host + (separate_device ? 0 : device);
  if (needed <= machine_bytes) return absl::OkStatus();
  return DoesNotFitError(absl::StrCat(
      "with --device-memory ", FormatBytes(plan.device_limit_bytes), " and --host-memory ",
      FormatBytes(plan.host_limit_bytes), " this run takes ", FormatBytes(needed),
      " of memory, and this machine has ", FormatBytes(machine_bytes),
      plan.request.has_storage
          ? ": give smaller budgets, and more of the state lives on NVMe"
          : ": give smaller budgets, and --swap PATH for the rest of the state"));
}

}  // namespace spillway
