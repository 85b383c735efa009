#include "engine/torch/generator.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/master_weights.h"
#include "engine/memory_limits.h"
#include "engine/random.h"
#include "engine/torch/device_memory.h"
#include "engine/torch/model_compute.h"
#include "engine/torch/tensor_views.h"
#include "io/status.h"
#include "swap/format_bytes.h"

namespace spillway {

absl::StatusOr<std::unique_ptr<Generator>> Generator::Create(const Model& model,
                                                             WeightSource* weights,
                                                             const GeneratorOptions& options) {
  auto generator = std::unique_ptr<Generator>(new Generator(model));
  Generator& g = *generator;
  g.dtype_ = options.dtype;
  ASSIGN_OR_RETURN(g.description_, DescribeModel(model));
  at::set_num_threads(options.threads);
  g.device_budget_ = std::make_unique<MemoryBudget>("device", options.device_memory_bytes);
  g.host_budget_ = std::make_unique<MemoryBudget>("host", options.host_memory_bytes);

  PlanRequest request;
  std::vector<UnitLayout> units;
  for (const UnitDescription& unit : g.description_.units) {
    units.push_back({unit.name, unit.flat_parameters});
  }
  const uint32_t bytes = DTypeBytes(options.dtype);
  request.layout = StateLayout(std::move(units), {{Plane::kWeight, bytes}}, bytes);
  request.schedule = BuildEvaluateSchedule(DescribeSchedule(g.description_));
  request.has_storage = !options.swap_paths.empty();
  request.host_bytes = options.host_memory_bytes;
  uint64_t min_host = 0;
  auto plan = PlanSwaps(request, &min_host);
  if (!plan.ok()) {
    return DoesNotFitError(absl::StrCat("the model's weights do not fit --host-memory ",
                                        FormatBytes(options.host_memory_bytes),
                                        ": it takes at least ", FormatBytesForFlag(min_host),
                                        request.has_storage ? "" : ", or less with --swap PATH"));
  }
  if (request.has_storage) {
    StoreOptions store;
    store.two_slots = false;
    for (const std::string& path : options.swap_paths) {
      ASSIGN_OR_RETURN(auto directory,
                       RunDirectory::Open(absl::StrCat(path, "/spillway-generate-", getpid())));
      store.directories.push_back(directory->path());
      g.directories_.push_back(std::move(directory));
    }
    ASSIGN_OR_RETURN(g.store_, SwapStore::Create(request.layout, store));
  }
  ASSIGN_OR_RETURN(g.host_arena_, Arena::Create(plan->host_arena_bytes, g.host_budget_.get()));
  ASSIGN_OR_RETURN(g.device_arena_, Arena::Create(0, g.device_budget_.get()));
  ASSIGN_OR_RETURN(g.manager_,
                   SwapManager::Create(*std::move(plan), g.store_.get(), g.host_arena_.get(),
                                       g.device_arena_.get(), nullptr, SwapManagerOptions()));
  RETURN_IF_ERROR(g.manager_->Initialize([&](const TileView& tile) -> absl::Status {
    const UnitDescription& unit = g.description_.units[tile.unit];
    std::vector<float> values;
    std::vector<char> rest(tile.parameters * sizeof(float));  // of the master: not needed here
    char* const planes[] = {tile.planes[0], rest.data()};
    for (const ParameterPiece& piece : PiecesOf(unit, tile.first_parameter, tile.parameters)) {
      values.resize(piece.count);
      RETURN_IF_ERROR(weights->Read(unit.parameters[piece.parameter].name, piece.first_element,
                                    piece.count, values.data()));
      (void)StoreMaster(g.dtype_, values.data(), piece.offset, piece.count, planes);
    }
    return absl::OkStatus();
  }));
  DeviceMemory::Install(g.device_budget_.get());
  return generator;
}

Generator::~Generator() {
  manager_.reset();
  if (store_) store_->Remove();
  DeviceMemory::Install(nullptr);
  for (const auto& directory : directories_) {
    (void)SwapStore::RemoveLeftovers(directory->path());
    rmdir(directory->path().c_str());
  }
}

absl::StatusOr<torch::Tensor> Generator::NextLogits(const std::vector<int64_t>& tokens) {
  const int last = static_cast<int>(description_.units.size()) - 1;
  torch::NoGradGuard no_grad;
  try {
    torch::Tensor x = torch::tensor(tokens, torch::kInt64).unsqueeze(0);
    manager_->Enqueue(Program::kEvaluate);
    for (int unit = 0; unit <= last; ++unit) {
      ASSIGN_OR_RETURN(const OpBuffers buffers, manager_->BeginOp());
      std::vector<torch::Tensor> parameters;
      for (const ParameterView& view : ViewsOf(model_, description_, dtype_, unit, buffers)) {
        parameters.push_back(view.weights);
      }
      const UnitContext context(0, 0, unit, {0}, /*training=*/false);
      x = unit < last ? model_.units[unit]->Forward(context, parameters, x)
                      : model_.loss->Logits(context, parameters, x.select(1, -1).contiguous());
      // Weights may be overwritten from here on; the logits must not point into them.
      if (unit == last) x = x.to(torch::kFloat32, /*non_blocking=*/false, /*copy=*/true);
      manager_->EndOp();
    }
    return x.flatten();
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat("generating: ", error.what_without_backtrace()));
  }
}

int64_t Generator::Sample(const torch::Tensor& logits, const SamplingOptions& options,
                          uint64_t index) {
  if (options.temperature <= 0) return logits.argmax().item<int64_t>();
  torch::Tensor scaled = logits / options.temperature;
  torch::Tensor order;
  const int64_t kept =
      options.top_k > 0 ? std::min<int64_t>(options.top_k, logits.numel()) : logits.numel();
  std::tie(scaled, order) = scaled.topk(kept);
  const torch::Tensor sums = scaled.softmax(0).to(torch::kFloat64).cumsum(0);
  const double u = static_cast<double>(RandomBits(options.seed, /*stream=*/0x67656e, index) >> 11) *
                   0x1p-53 * sums[kept - 1].item<double>();
  int64_t chosen = 0;
  while (chosen + 1 < kept && sums[chosen].item<double>() <= u) ++chosen;
  return order[chosen].item<int64_t>();
}

}  // namespace spillway
