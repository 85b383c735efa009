#include "engine/torch/generator.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "engine/machine/memory_limits.h"
#include "engine/run/run_directory.h"
#include "engine/torch/model_compute.h"
#include "engine/torch/tensor_views.h"
#include "engine/weights/master_weights.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "swap/plan/planner.h"

namespace spillway {
namespace {

// Files without a name: they go with the process, even with kill -9.
absl::StatusOr<std::unique_ptr<SwapStore>> OpenNamelessStore(
    const StateLayout& layout, const std::vector<std::string>& swap_paths) {
  StoreOptions options;
  options.two_slots = false;
  std::vector<std::unique_ptr<RunDirectory>> directories;
  for (const std::string& path : swap_paths) {
    ASSIGN_OR_RETURN(auto directory,
                     RunDirectory::Open(absl::StrCat(path, "/spillway-generate-", getpid())));
    options.directories.push_back(directory->path());
    directories.push_back(std::move(directory));
  }
  auto store = SwapStore::Create(layout, options);
  for (const auto& directory : directories) {
    std::error_code error;
    std::filesystem::remove_all(directory->path(), error);
  }
  return store;
}

// What ForwardNext needs to know of a unit to take as much memory as another.
std::string InputSignature(const UnitDescription& unit, int64_t kept) {
  std::string text = absl::StrCat(kept);
  for (const ParameterDescription& parameter : unit.parameters) {
    absl::StrAppend(&text, ";");
    for (const int64_t size : parameter.shape) absl::StrAppend(&text, size, ",");
  }
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Generator>> Generator::Create(const Model& model,
                                                             WeightSource* weights,
                                                             const GeneratorOptions& options) {
  auto generator = std::unique_ptr<Generator>(new Generator(model, options));
  Generator& g = *generator;
  RETURN_IF_ERROR(g.Describe());
  at::set_num_threads(options.threads);
  g.device_budget_ = std::make_unique<MemoryBudget>("device", options.device_memory_bytes);
  g.host_budget_ = std::make_unique<MemoryBudget>("host", options.host_memory_bytes);
  TorchMemory& memory = *options.place.memory;
  MemoryBudget dry_run("device", memory.DryRunBytes(options.device_memory_bytes));
  memory.SetBudget(&dry_run);
  const absl::StatusOr<uint64_t> peak = g.MeasurePeakBytes();
  memory.SetBudget(nullptr);
  RETURN_IF_ERROR(peak.status());
  RETURN_IF_ERROR(g.PlanAndOpen(*peak));
  RETURN_IF_ERROR(g.Load(weights));
  return generator;
}

Generator::~Generator() {
  manager_.reset();
  kept_.clear();
  options_.place.memory->SetBudget(nullptr);
}

absl::Status Generator::Describe() {
  ASSIGN_OR_RETURN(description_, DescribeModel(model_));
  if (options_.prompt_tokens < 1) return absl::InvalidArgumentError("there is no text to continue");
  if (options_.prompt_tokens > options_.positions) {
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has ", options_.prompt_tokens, " tokens and the model knows ",
                     options_.positions, " positions: give a shorter one"));
  }
  text_positions_ = std::min(options_.positions, options_.prompt_tokens + options_.new_tokens);
  for (const auto& unit : model_.units) continues_ &= unit->KeptPerPosition() >= 0;
  if (!continues_) return absl::OkStatus();
  for (const auto& unit : model_.units) {
    kept_bytes_ += unit->KeptPerPosition() * text_positions_ * DTypeBytes(options_.dtype);
  }
  return absl::OkStatus();
}

// The most tokens that are computed at once.
int64_t Generator::LongestInput() const {
  if (!continues_) return text_positions_;
  const bool outgrows = options_.prompt_tokens + options_.new_tokens > options_.positions;
  return std::max(options_.prompt_tokens, outgrows ? options_.positions / 2 + 1 : 1);
}

torch::Tensor Generator::RunUnit(int unit, const std::vector<torch::Tensor>& parameters,
                                 const torch::Tensor& x, const TextPosition& at) const {
  const UnitContext context(0, 0, unit, {0}, /*training=*/false);
  if (unit == last_unit()) {
    return model_.loss->Logits(context, parameters, x.select(1, -1).contiguous());
  }
  return continues_ ? model_.units[unit]->ForwardNext(context, parameters, x, at)
                    : model_.units[unit]->Forward(context, parameters, x);
}

absl::StatusOr<uint64_t> Generator::MeasurePeakBytes() {
  torch::NoGradGuard no_grad;
  const ComputePlace& place = options_.place;
  TorchMemory& memory = *place.memory;
  const ComputeScope scope(place);
  const auto floats = torch::TensorOptions(place.where).dtype(ScalarTypeOf(options_.dtype));
  uint64_t peak = 0;
  // The longest input at once, and a last token that sees the whole text.
  std::vector<TextPosition> cases = {{0, {}}};
  if (continues_ && text_positions_ > 1) cases.push_back({text_positions_ - 1, {}});
  try {
    for (const TextPosition& position : cases) {
      const int64_t length = position.first == 0 ? LongestInput() : 1;
      std::set<std::string> seen;
      torch::Tensor x = torch::zeros({1, length}, floats.dtype(torch::kInt64));
      for (int unit = 0; unit <= last_unit(); ++unit) {
        const int64_t kept = unit < last_unit() ? model_.units[unit]->KeptPerPosition() : 0;
        const std::string signature = InputSignature(description_.units[unit], kept);
        if (unit > 0 && unit < last_unit() && !seen.insert(signature).second) continue;
        // Zeroed weights that LibTorch's allocator does not count.
        StepOp op;
        op.unit = unit;
        op.weights = description_.units[unit].borrows;
        op.weights.push_back(unit);
        OpBuffers buffers;
        buffers.op = &op;
        std::vector<PlaceMemory> scratch;
        for (const int u : op.weights) {
          const uint64_t n = description_.units[u].flat_parameters + kParameterAlignment;
          ASSIGN_OR_RETURN(PlaceMemory weights,
                           PlaceMemory::CreateZeroed(place, n * DTypeBytes(options_.dtype)));
          buffers.weights.push_back(weights.data());
          scratch.push_back(std::move(weights));
        }
        std::vector<torch::Tensor> parameters;
        for (const ParameterView& view :
             ViewsOf(model_, description_, options_.dtype, unit, buffers, place.where)) {
          parameters.push_back(view.weights);
        }
        TextPosition at = position;
        if (kept > 0) at.kept = torch::zeros({text_positions_, kept}, floats);
        const uint64_t counted_apart = at.kept.defined() ? at.kept.nbytes() : 0;
        const uint64_t before = memory.live_bytes() - counted_apart;
        memory.ResetPeak();
        torch::Tensor out = RunUnit(unit, parameters, x, at);
        if (!out.defined()) {
          return absl::InvalidArgumentError("this model has no logits: it cannot generate");
        }
        peak = std::max(peak, memory.peak_live_bytes() - before - counted_apart +
                                  static_cast<uint64_t>(x.nbytes()));
        // The logits in fp32, and their order, sums and chances while one is drawn.
        if (unit == last_unit()) peak = std::max(peak, uint64_t{48} * out.numel());
        x = out;
      }
    }
  } catch (const c10::OutOfMemoryError& error) {
    return DoesNotFitError(absl::StrCat("computing does not fit this machine's memory: ",
                                        memory.RefusalText(error.what_without_backtrace())));
  } catch (const c10::Error& error) {
    return absl::InternalError(
        absl::StrCat("the dry run before the first token: ", error.what_without_backtrace()));
  }
  RETURN_IF_ERROR(Settle(place));
  memory.Trim();
  return peak + peak / 16 + 4 * kMiB + memory.overhead_bytes();
}

absl::Status Generator::PlanAndOpen(uint64_t compute_bytes) {
  PlanRequest request;
  std::vector<UnitLayout> units;
  for (const UnitDescription& unit : description_.units) {
    units.push_back({unit.name, unit.flat_parameters});
  }
  const uint32_t bytes = DTypeBytes(options_.dtype);
  request.layout = StateLayout(std::move(units), {{Plane::kWeight, bytes}}, bytes);
  request.schedule = BuildEvaluateSchedule(DescribeSchedule(description_));
  Device* const device = options_.place.device;
  request.separate_device = device != nullptr;
  request.has_storage = !options_.swap_paths.empty();
  const uint64_t device_bytes = compute_bytes + kept_bytes_;
  const uint64_t device_limit = options_.device_memory_bytes;
  request.device_bytes = device_limit > device_bytes ? device_limit - device_bytes : 0;
  request.host_bytes = options_.host_memory_bytes;
  uint64_t min_host = 0, min_device = 0;
  auto plan = PlanSwaps(request, &min_host, &min_device);
  if (!plan.ok() || device_limit < device_bytes) {
    return DoesNotFitError(absl::StrCat(
        "generating does not fit --device-memory ", FormatBytes(device_limit),
        " and --host-memory ", FormatBytes(options_.host_memory_bytes),
        ": it needs at least --device-memory ", FormatBytesForFlag(device_bytes + min_device),
        " and --host-memory ", FormatBytesForFlag(min_host), " (the key-value cache of ",
        text_positions_, " positions takes ", FormatBytes(kept_bytes_), " of the device's",
        request.has_storage ? ")" : "; with --swap PATH weights can live on NVMe)"));
  }
  bool any_nvme = false;
  for (const UnitPlacement& placement : plan->placements) any_nvme |= placement.any_nvme();
  if (any_nvme) {
    ASSIGN_OR_RETURN(store_, OpenNamelessStore(request.layout, options_.swap_paths));
  }
  ASSIGN_OR_RETURN(host_arena_, Arena::Create(plan->host_arena_bytes, host_budget_.get(), device));
  const uint64_t device_arena_bytes = plan->device_arena_bytes;
  ASSIGN_OR_RETURN(device_arena_,
                   device ? Arena::CreateOn(device, device_arena_bytes, device_budget_.get())
                          : Arena::Create(device_arena_bytes, device_budget_.get()));
  SwapManagerOptions manager_options;
  manager_options.device = device;
  manager_options.io = options_.io;
  ASSIGN_OR_RETURN(manager_, SwapManager::Create(*std::move(plan), store_.get(), host_arena_.get(),
                                                 device_arena_.get(), nullptr, manager_options));
  const ComputePlace& place = options_.place;
  place.memory->SetBudget(device_budget_.get());
  if (!continues_) return absl::OkStatus();
  const ComputeScope scope(place);
  const auto floats = torch::TensorOptions(place.where).dtype(ScalarTypeOf(options_.dtype));
  for (const auto& unit : model_.units) {
    const int64_t kept = unit->KeptPerPosition();
    kept_.push_back(kept > 0 ? torch::empty({text_positions_, kept}, floats) : torch::Tensor());
  }
  return absl::OkStatus();
}

absl::Status Generator::Load(WeightSource* weights) {
  return manager_->Initialize([&](const TileView& tile) -> absl::Status {
    const UnitDescription& unit = description_.units[tile.unit];
    std::vector<float> values;
    std::vector<char> rest(tile.parameters * sizeof(float));  // of the master: not needed here
    char* const planes[] = {tile.planes[0], rest.data()};
    for (const ParameterPiece& piece : PiecesOf(unit, tile.first_parameter, tile.parameters)) {
      const std::string& name = unit.parameters[piece.parameter].name;
      values.resize(piece.count);
      RETURN_IF_ERROR(weights->Read(name, piece.first_element, piece.count, values.data()));
      if (!StoreMaster(options_.dtype, values.data(), piece.offset, piece.count, planes)) {
        return absl::InvalidArgumentError(absl::StrCat("the weights of \"", name,
                                                       "\" hold a value that is not finite in ",
                                                       std::string(DTypeName(options_.dtype))));
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<torch::Tensor> Generator::Append(const std::vector<int64_t>& tokens) {
  text_.insert(text_.end(), tokens.begin(), tokens.end());
  appended_ += static_cast<int64_t>(tokens.size());
  if (static_cast<int64_t>(text_.size()) > options_.positions) {
    if (appended_ - static_cast<int64_t>(tokens.size()) <= options_.positions) {
      LogInfo(absl::StrCat("the text has outgrown the model's ", options_.positions,
                           " positions: it goes on with its last ", options_.positions / 2,
                           " tokens each time it does"));
    }
    text_.erase(text_.begin(), text_.end() - (options_.positions / 2 + 1));
    computed_ = 0;
  }
  if (!continues_) computed_ = 0;
  const std::vector<int64_t> next(text_.begin() + computed_, text_.end());
  ASSIGN_OR_RETURN(const torch::Tensor logits, Compute(next, computed_));
  computed_ = static_cast<int64_t>(text_.size());
  return logits;
}

absl::StatusOr<torch::Tensor> Generator::Compute(const std::vector<int64_t>& tokens,
                                                 int64_t first) {
  torch::NoGradGuard no_grad;
  const ComputePlace& place = options_.place;
  const ComputeScope scope(place);
  try {
    torch::Tensor x = BringTo(place, torch::tensor(tokens, torch::kInt64).unsqueeze(0));
    if (!enqueued_) manager_->Enqueue(Program::kEvaluate);
    enqueued_ = false;
    for (int unit = 0; unit <= last_unit(); ++unit) {
      ASSIGN_OR_RETURN(const OpBuffers buffers, manager_->BeginOp());
      // Fetches for the next token go on while this one is finished, drawn and printed.
      if (unit == last_unit() && appended_ < options_.prompt_tokens + options_.new_tokens) {
        manager_->Enqueue(Program::kEvaluate);
        enqueued_ = true;
      }
      std::vector<torch::Tensor> parameters;
      for (const ParameterView& view :
           ViewsOf(model_, description_, options_.dtype, unit, buffers)) {
        parameters.push_back(view.weights);
      }
      TextPosition at;
      at.first = first;
      if (continues_ && unit < last_unit()) at.kept = kept_[unit];
      x = RunUnit(unit, parameters, x, at);
      // Weights may be overwritten from here on; the logits must not point into them.
      if (unit == last_unit()) {
        x = x.to(torch::kCPU, torch::kFloat32, /*non_blocking=*/false, /*copy=*/true);
      }
      manager_->EndOp();
    }
    return x.flatten();
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("generating: ", place.memory->RefusalText(error.what_without_backtrace())));
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat("generating: ", error.what_without_backtrace()));
  }
}

}  // namespace spillway
