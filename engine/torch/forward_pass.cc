#include "engine/torch/forward_pass.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <algorithm>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/machine/memory_limits.h"
#include "engine/torch/tensor_views.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 20;

int64_t ElementsOf(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

ForwardPass::ForwardPass(const Model& model, WeightSource* weights, const ForwardOptions& options)
    : model_(model),
      flow_(*ValueFlow::Of(model)),
      weights_(*weights),
      options_(options),
      budget_("device", options.device_memory_bytes) {
  uint64_t all = 0;
  const int encoder = model_.encoder_units;
  kept_.resize(encoder > 0 ? encoder : model_.units.size());
  buffers_.resize(kept_.size());
  for (int unit = 0; unit < num_units(); ++unit) {
    uint64_t bytes = 0;
    for (const ParameterSpec& spec : model_.units[unit]->parameters()) {
      bytes += static_cast<uint64_t>(ElementsOf(spec.shape)) * DTypeBytes(options_.dtype);
    }
    largest_unit_bytes_ = std::max(largest_unit_bytes_, bytes);
    all += bytes;
  }
  keeps_weights_ = all <= options_.device_memory_bytes / 2;
  at::set_num_threads(options_.threads);
  options_.place.memory->SetBudget(&budget_);
}

ForwardPass::~ForwardPass() {
  kept_.clear();
  buffers_.clear();
  options_.place.memory->SetBudget(nullptr);
}

int64_t ForwardPass::batches_at_once(uint64_t hidden_bytes) const {
  if (keeps_weights_) return 1;
  const uint64_t budget = options_.device_memory_bytes;
  const uint64_t room = budget - std::min(budget, largest_unit_bytes_);
  return static_cast<int64_t>(
      std::max<uint64_t>(1, room / 4 / std::max<uint64_t>(1, hidden_bytes)));
}

template <typename T>
absl::StatusOr<T> ForwardPass::Caught(const std::function<absl::StatusOr<T>()>& f) const {
  const auto said = [&](const c10::Error& error) { return error.what_without_backtrace(); };
  try {
    return f();
  } catch (const c10::OutOfMemoryError& error) {
    return DoesNotFitError(
        absl::StrCat("computing: ", options_.place.memory->RefusalText(said(error))));
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat("computing: ", said(error)));
  }
}

absl::StatusOr<std::vector<torch::Tensor>> ForwardPass::Run(const std::vector<Batch>& batches) {
  return Caught<std::vector<torch::Tensor>>([&] { return Compute(batches); });
}

absl::StatusOr<torch::Tensor> ForwardPass::Logits(const torch::Tensor& rows) {
  return Caught<torch::Tensor>([&] { return ComputeLogits(rows); });
}

absl::StatusOr<torch::Tensor> ForwardPass::ComputeLogits(const torch::Tensor& rows) {
  const torch::NoGradGuard no_grad;
  const ComputeScope scope(options_.place);
  Tensors parameters;
  for (const ParameterSpec& spec : model_.loss->parameters()) {
    ASSIGN_OR_RETURN(parameters.emplace_back(), ReadTensor(spec.name, spec.shape, options_.dtype));
  }
  for (const BorrowedParameter& borrowed : model_.loss->borrowed()) {
    const Tensors& kept = kept_[borrowed.unit];
    if (!kept.empty()) {
      parameters.push_back(kept[borrowed.parameter]);
      continue;
    }
    const ParameterSpec spec = model_.units[borrowed.unit]->parameters()[borrowed.parameter];
    ASSIGN_OR_RETURN(parameters.emplace_back(), ReadTensor(spec.name, spec.shape, options_.dtype));
  }
  const UnitContext context(0, 0, num_units(), {}, /*training=*/false,
                            {.in_fp32 = options_.fp32_products});
  const torch::Tensor x = BringTo(options_.place, rows).to(ScalarTypeOf(options_.dtype));
  return model_.loss->Logits(context, parameters, x).to(torch::kCPU, torch::kFloat32);
}

absl::StatusOr<std::vector<torch::Tensor>> ForwardPass::Compute(const std::vector<Batch>& given) {
  const torch::NoGradGuard no_grad;
  const ComputeScope scope(options_.place);
  std::vector<Batch> batches = given;
  std::vector<torch::Tensor> outputs;
  for (Batch& batch : batches) {
    batch.inputs = BringTo(options_.place, batch.inputs);
    for (auto& [name, field] : batch.fields) field = BringTo(options_.place, field);
    outputs.push_back(batch.inputs);
  }
  std::vector<KeptValues> values(batches.size());
  for (int unit = 0; unit < num_units(); ++unit) {
    ASSIGN_OR_RETURN(const Tensors parameters, ReadUnit(unit));
    for (size_t i = 0; i < batches.size(); ++i) {
      std::vector<int64_t> samples(batches[i].inputs.size(0));
      const UnitContext context = UnitContext(0, 0, unit, std::move(samples), /*training=*/false,
                                              {.in_fp32 = options_.fp32_products})
                                      .With(&batches[i], values[i].Outputs(flow_.reads(unit)))
                                      .WithBuffers(buffers_[unit]);
      const std::string& field = flow_.input(unit);
      const torch::Tensor& x = field.empty() ? outputs[i] : context.field(field);
      outputs[i] = model_.units[unit]->Forward(context, parameters, x);
      if (flow_.kept(unit)) values[i].Keep(unit, outputs[i]);
    }
  }
  for (torch::Tensor& output : outputs) output = output.to(torch::kCPU, torch::kFloat32);
  return outputs;
}

absl::StatusOr<ForwardPass::Tensors> ForwardPass::ReadUnit(int unit) {
  if (!kept_[unit].empty()) return kept_[unit];
  Tensors tensors;
  for (const ParameterSpec& spec : model_.units[unit]->parameters()) {
    ASSIGN_OR_RETURN(torch::Tensor tensor, ReadTensor(spec.name, spec.shape, options_.dtype));
    tensors.push_back(std::move(tensor));
  }
  if (buffers_[unit].empty()) {
    for (const BufferSpec& spec : model_.units[unit]->buffers()) {
      ASSIGN_OR_RETURN(torch::Tensor tensor, ReadTensor(spec.name, spec.shape, DType::kFloat32));
      buffers_[unit].push_back(std::move(tensor));
    }
  }
  if (keeps_weights_) kept_[unit] = tensors;
  return tensors;
}

absl::StatusOr<torch::Tensor> ForwardPass::ReadTensor(const std::string& name,
                                                      const std::vector<int64_t>& shape,
                                                      DType dtype) {
  const int64_t elements = ElementsOf(shape);
  const torch::Tensor piece = torch::empty({std::min(elements, kPieceElements)});
  torch::Tensor whole = torch::empty(
      {elements}, torch::TensorOptions(options_.place.where).dtype(ScalarTypeOf(dtype)));
  for (int64_t first = 0; first < elements; first += kPieceElements) {
    const int64_t count = std::min(kPieceElements, elements - first);
    RETURN_IF_ERROR(weights_.Read(name, first, count, piece.data_ptr<float>()));
    whole.narrow(0, first, count).copy_(piece.narrow(0, 0, count));
  }
  return whole.view(shape);
}

}  // namespace spillway
