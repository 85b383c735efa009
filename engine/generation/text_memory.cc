#include "engine/generation/text_memory.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/generation/passing_directories.h"
#include "engine/machine/core_limits.h"
#include "engine/machine/memory_limits.h"
#include "engine/weights/frozen_in_place.h"
#include "engine/weights/master_weights.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "swap/mover/in_place_reads.h"
#include "swap/plan/planner.h"

namespace spillway {

absl::StatusOr<std::unique_ptr<TextMemory>> TextMemory::Open(
    const TextUnits& units, const KeptShape& kept_shape, int64_t text_positions,
    uint64_t compute_bytes, const GeneratorOptions& options, WeightSource* weights) {
  std::unique_ptr<TextMemory> memory(new TextMemory(options));
  RETURN_IF_ERROR(
      memory->PlanAndOpen(units, kept_shape, text_positions, compute_bytes, options, *weights));
  RETURN_IF_ERROR(memory->Load(units.description(), options.dtype, weights));
  return memory;
}

TextMemory::~TextMemory() {
  manager_.reset();
  kept_.reset();
  torch_memory_->SetBudget(nullptr);
}

absl::Status TextMemory::PlanAndOpen(const TextUnits& text_units, const KeptShape& kept_shape,
                                     int64_t text_positions, uint64_t compute_bytes,
                                     const GeneratorOptions& options, const WeightSource& weights) {
  // Nothing is trained: what is in files can stay there.
  ModelDescription frozen = text_units.description();
  for (UnitDescription& unit : frozen.units) unit.frozen = true;
  const FrozenWeights found =
      FindFrozenInPlace(frozen, ShardGrid(), options.dtype, weights, /*output=*/"");
  const bool all_in_place = found.copied_bytes + found.packed_bytes == 0;
  PlanRequest request;
  std::vector<UnitLayout> units;
  for (const UnitDescription& unit : frozen.units) {
    units.push_back({unit.name, unit.flat_parameters, /*frozen=*/true});
  }
  const uint32_t bytes = DTypeBytes(options.dtype);
  request.layout = StateLayout(std::move(units), {{Plane::kWeight, bytes}}, bytes);
  request.schedule = BuildEvaluateSchedule(DescribeSchedule(text_units.description()));
  std::vector<StepOp>& ops = request.schedule.ops;
  ops.erase(ops.begin(), ops.begin() + text_units.first());
  Device* const device = options.place.device;
  request.separate_device = device != nullptr;
  const bool has_swap = !options.swap_paths.empty();
  request.has_storage = has_swap || all_in_place;
  // What reading in place takes, and the least.
  std::vector<uint64_t> in_place_bytes = {0};
  if (found.in_place.any()) {
    const uint64_t most = InPlaceReads::MostBytes(options.host_memory_bytes);
    in_place_bytes = {InPlaceReads::MemoryBytes(request.layout, most),
                      InPlaceReads::MemoryBytes(request.layout, 0)};
  }
  SwapManagerOptions manager_options;
  manager_options.workers =
      UpdateWorkersFor(UsableCores(), device != nullptr ? 1 : options.threads);
  const uint64_t device_limit = options.device_memory_bytes;
  const uint64_t host_limit = options.host_memory_bytes;
  uint64_t min_host = 0, min_device = 0;
  absl::StatusOr<SwapPlan> plan = absl::UnknownError("");
  Tier kept_tier = Tier::kDevice;
  std::vector<Tier> tiers = {Tier::kDevice};
  if (kept_shape.bytes() > 0) tiers.push_back(Tier::kHost);
  if (kept_shape.bytes() > 0 && has_swap) tiers.push_back(Tier::kNvme);
  for (const Tier tier : tiers) {
    kept_tier = tier;
    for (const uint64_t reads : in_place_bytes) {
      manager_options.in_place_bytes = reads;
      KeptShape::Memory kept = kept_shape.MemoryIn(tier, device != nullptr);
      kept.device_bytes += compute_bytes;
      kept.host_bytes += reads;
      request.device_bytes = device_limit - std::min(device_limit, kept.device_bytes);
      request.host_bytes = host_limit - std::min(host_limit, kept.host_bytes);
      uint64_t host = 0, in_device = 0;
      plan = PlanSwaps(request, &host, &in_device);
      min_host = host + kept.host_bytes;
      min_device = in_device + kept.device_bytes;
      if (plan.ok() && kept.device_bytes <= device_limit && kept.host_bytes <= host_limit) break;
      plan = absl::ResourceExhaustedError("");
    }
    if (plan.ok()) break;
  }
  if (!plan.ok()) {
    return DoesNotFitError(absl::StrCat(
        "generating does not fit --device-memory ", FormatBytes(device_limit),
        " and --host-memory ", FormatBytes(host_limit), ": it needs at least --device-memory ",
        FormatBytesForFlag(min_device), " and --host-memory ", FormatBytesForFlag(min_host),
        " (key-value caches of ", options.rows, options.rows == 1 ? " text" : " texts", " of ",
        text_positions, " positions take ", FormatBytes(kept_shape.bytes()),
        has_swap ? ")" : "; with --swap PATH weights and caches can live on NVMe)"));
  }
  bool any_nvme = false;
  for (const UnitPlacement& placement : plan->placements) any_nvme |= placement.any_nvme();
  PassingDirectories directories;
  const bool copied = any_nvme && !all_in_place;
  if (copied || kept_tier == Tier::kNvme) RETURN_IF_ERROR(directories.Open(options.swap_paths));
  if (any_nvme) {
    StoreOptions store_options;
    store_options.two_slots = false;
    if (copied) store_options.directories = directories.paths();
    store_options.in_place = found.in_place;
    ASSIGN_OR_RETURN(store_, SwapStore::Create(request.layout, store_options));
  }
  ASSIGN_OR_RETURN(host_arena_, Arena::Create(plan->host_arena_bytes, &host_budget_, device));
  const uint64_t device_arena_bytes = plan->device_arena_bytes;
  ASSIGN_OR_RETURN(device_arena_, device
                                      ? Arena::CreateOn(device, device_arena_bytes, &device_budget_)
                                      : Arena::Create(device_arena_bytes, &device_budget_));
  manager_options.device = device;
  manager_options.io = options.io;
  ASSIGN_OR_RETURN(manager_, SwapManager::Create(*std::move(plan), store_.get(), host_arena_.get(),
                                                 device_arena_.get(), nullptr, manager_options));
  const ComputePlace& place = options.place;
  place.memory->SetBudget(&device_budget_);
  if (kept_shape.bytes() == 0) return absl::OkStatus();
  const ComputeScope scope(place);
  ASSIGN_OR_RETURN(kept_, KeptPositions::Create(kept_shape, kept_tier, place, &host_budget_,
                                                directories.paths(), options.io));
  return absl::OkStatus();
}

absl::Status TextMemory::Load(const ModelDescription& model, DType dtype, WeightSource* weights) {
  const WeightFormat format = MasterFormat(manager_->plan().layout, dtype);
  return manager_->Initialize([&](const TileView& tile) -> absl::Status {
    const UnitDescription& unit = model.units[tile.unit];
    std::vector<float> values;
    char* const planes[] = {tile.planes[0], nullptr};  // the rest of the master is not needed
    for (const ParameterPiece& piece : PiecesOf(unit, tile.first_parameter, tile.parameters)) {
      const std::string& name = unit.parameters[piece.parameter].name;
      values.resize(piece.count);
      RETURN_IF_ERROR(weights->Read(name, piece.first_element, piece.count, values.data()));
      if (!StoreMaster(format, values.data(), piece.offset, piece.count, planes)) {
        return absl::InvalidArgumentError(absl::StrCat("the weights of \"", name,
                                                       "\" hold a value that is not finite in ",
                                                       std::string(DTypeName(dtype))));
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace spillway
