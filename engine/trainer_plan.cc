// How a trainer sets itself up: budgets, plan, store, arenas, manager.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/memory_limits.h"
#include "engine/trainer.h"
#include "io/log.h"
#include "io/status.h"
#include "swap/format_bytes.h"

namespace spillway {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

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

// Immediate needs the update's scalars before the step's end: no clipping, no scale.
absl::StatusOr<UpdateMode> ChooseUpdate(const TrainOptions& options) {
  const bool needs_total = options.clip > 0 || options.dtype == DType::kFloat16;
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

// The swap manager's books beside the arena: extents, checksums, requests, the manifest's
// text; with copies of commits their books and the tile in hand.
uint64_t BookBytes(const StateLayout& layout, bool copies) {
  uint64_t tiles = 0;
  for (int unit = 0; unit < layout.num_units(); ++unit) tiles += layout.NumTiles(unit);
  const uint64_t books = 2 * kMiB + tiles * 1024;
  return copies ? 2 * books + layout.MaxTileBytes() : books;
}

}  // namespace

absl::Status Trainer::PlanAndOpen(MemoryBudget* device_budget) {
  ASSIGN_OR_RETURN(const UpdateMode update, ChooseUpdate(options_));
  deferred_ = update == UpdateMode::kDeferred;
  const absl::StatusOr<uint64_t> dry_run = compute_->MeasurePeakBytes();
  if (absl::IsResourceExhausted(dry_run.status())) {
    return DoesNotFitError(
        absl::StrCat("computing does not fit this machine's memory: ", dry_run.status().message(),
                     ", or take a smaller --micro-batch or --seq-len"));
  }
  RETURN_IF_ERROR(dry_run.status());
  const uint64_t measured = *dry_run;
  // The order of allocations differs a little from the dry run's.
  const uint64_t compute_bytes = measured + measured / 16 + 4 * kMiB;
  computing_bytes_ = compute_bytes;

  PlanRequest request;
  const uint64_t tile_parameters = storage_->committed_tile_parameters() > 0
                                       ? storage_->committed_tile_parameters()
                                       : options_.tile_parameters;
  request.layout = DescribeState(model_, options_.optimizer, options_.dtype, tile_parameters);
  request.schedule = BuildTrainSchedule(DescribeSchedule(model_), update);
  request.weights = TierOf(options_.offload_param);
  request.optimizer = TierOf(options_.offload_optimizer);
  request.has_storage = !options_.swap_paths.empty();
  const uint64_t book_bytes = BookBytes(request.layout, storage_->copies() != nullptr);
  const uint64_t host_limit = host_budget_limit_;
  const uint64_t device_limit = device_budget->limit_bytes();
  request.host_bytes = host_limit > book_bytes ? host_limit - book_bytes : 0;
  request.device_bytes = device_limit > compute_bytes ? device_limit - compute_bytes : 0;

  uint64_t min_host = 0, min_device = 0;
  auto planned = PlanSwaps(request, &min_host, &min_device);
  if (absl::IsInvalidArgument(planned.status())) return planned.status();
  if (!planned.ok() || device_limit < compute_bytes) {
    return DoesNotFitError(absl::StrCat(
        "this run does not fit --device-memory ", FormatBytes(device_limit), " and --host-memory ",
        FormatBytes(host_limit), ": it needs at least --device-memory ",
        FormatBytesForFlag(compute_bytes + min_device), " and --host-memory ",
        FormatBytesForFlag(book_bytes + min_host), " (computing takes ", FormatBytes(compute_bytes),
        " of the device's; a smaller --micro-batch or --seq-len takes "
        "less",
        request.has_storage ? ")" : "; with --swap PATH state can live on NVMe)"));
  }
  for (const StepOp& op : planned->schedule.ops) {
    ++evaluate_ops_;
    if (op.kind == OpKind::kLoss) break;
  }

  bool any_nvme = false;
  std::vector<bool> spill(request.layout.num_units(), false);
  for (int unit = 0; unit < request.layout.num_units(); ++unit) {
    spill[unit] = deferred_ && planned->placements[unit].gradient == Tier::kNvme;
    any_nvme |= planned->placements[unit].any_nvme() || spill[unit];
  }
  if (any_nvme || !options_.no_commit || storage_->committed()) {
    ASSIGN_OR_RETURN(store_, storage_->OpenStore(request.layout, spill, state_));
  }
  host_budget_ = std::make_unique<MemoryBudget>("host", host_limit);
  ASSIGN_OR_RETURN(books_, host_budget_->Reserve(book_bytes, "the swap manager's books"));
  ASSIGN_OR_RETURN(host_arena_, Arena::Create(planned->host_arena_bytes, host_budget_.get()));
  ASSIGN_OR_RETURN(device_arena_, Arena::Create(planned->device_arena_bytes, device_budget));
  optimizer_ = std::make_unique<OptimizerTiles>(options_.optimizer, options_.dtype, request.layout,
                                                DecayedRanges(model_, options_.optimizer.decay));
  SwapManagerOptions manager_options;
  manager_options.io = options_.io;
  if (options_.update_threads > 0) manager_options.workers = options_.update_threads;
  ASSIGN_OR_RETURN(manager_,
                   SwapManager::Create(*std::move(planned), store_.get(), host_arena_.get(),
                                       device_arena_.get(), optimizer_.get(), manager_options));
  LogInfo(absl::StrCat("plan for ", model_.parameter_count(), " parameters in ",
                       model_.units.size(), " units\n", plan().Summary(), "  computing  ",
                       FormatBytes(compute_bytes), " of device memory at its peak\n",
                       "  budgets    ", FormatBytes(device_limit), " device, ",
                       FormatBytes(host_limit), " host"));
  return absl::OkStatus();
}

}  // namespace spillway
