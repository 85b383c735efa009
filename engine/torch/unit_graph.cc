#include "engine/torch/unit_graph.h"

#include <torch/autograd.h>

#include <cstdint>
#include <utility>

#include "io/base/check.h"

namespace spillway {

namespace {

// By input; undefined if it requires no gradient, or no root depends on it.
std::vector<torch::Tensor> GradientsOf(const std::vector<torch::Tensor>& roots,
                                       const std::vector<torch::Tensor>& root_gradients,
                                       const std::vector<torch::Tensor>& inputs) {
  std::vector<torch::Tensor> wanted;
  for (const torch::Tensor& input : inputs) {
    if (input.requires_grad()) wanted.push_back(input);
  }
  std::vector<torch::Tensor> gradients(wanted.size());
  if (!roots.empty()) {
    gradients = torch::autograd::grad(roots, wanted, root_gradients, /*retain_graph=*/false,
                                      /*create_graph=*/false, /*allow_unused=*/true);
  }
  auto next = gradients.begin();
  std::vector<torch::Tensor> found;
  for (const torch::Tensor& input : inputs) {
    found.push_back(input.requires_grad() ? *next++ : torch::Tensor());
  }
  return found;
}

// Labels are only read if a loss is a constant: on a GPU that waits.
bool AnyCounts(const torch::Tensor& labels) {
  return labels.is_floating_point() || labels.ne(kIgnoredLabel).any().item<bool>();
}

// Tensors that a forward reads and must not change.
std::vector<torch::Tensor> ReadBy(const UnitContext& context, const GivenParameters& parameters,
                                  const torch::Tensor& x) {
  std::vector<torch::Tensor> all = parameters.tensors;
  all.push_back(x);
  all.insert(all.end(), context.values().begin(), context.values().end());
  if (const Batch* const batch = context.batch(); batch != nullptr) {
    all.insert(all.end(), {batch->inputs, batch->labels});
    for (const auto& [name, field] : batch->fields) all.push_back(field);
  }
  return all;
}

// Autograd's version counters of the tensors, which in-place changes increment.
std::vector<int64_t> VersionsOf(const std::vector<torch::Tensor>& tensors) {
  std::vector<int64_t> versions;
  for (const torch::Tensor& tensor : tensors) {
    const bool counted = tensor.defined() && !tensor.is_inference();
    versions.push_back(counted ? tensor._version() : 0);
  }
  return versions;
}

}  // namespace

torch::Tensor ForwardOf(const Unit& unit, const UnitContext& context,
                        const GivenParameters& parameters, const torch::Tensor& x) {
  const std::vector<torch::Tensor> read = ReadBy(context, parameters, x);
  const std::vector<int64_t> before = VersionsOf(read);
  torch::Tensor y = unit.Forward(context.WithPacked(parameters.packed), parameters.tensors, x);
  TORCH_CHECK(VersionsOf(read) == before, "unit ", unit.name(),
              " changes its input, a value, a field or a parameter in place: forwards are computed "
              "anew from them, so it must work on a copy (x.clone())");
  return y;
}

std::vector<torch::Tensor> GradientsOfLoss(const torch::Tensor& loss, double loss_gradient,
                                           const std::vector<torch::Tensor>& inputs,
                                           const torch::Tensor& labels) {
  if (!loss.requires_grad()) {
    TORCH_CHECK(!AnyCounts(labels),
                "the loss depends neither on x nor on a parameter, although labels count: LossSum "
                "must be differentiable in both");
    return GradientsOf({}, {}, inputs);
  }
  const torch::Tensor seed = torch::full({}, loss_gradient, loss.options().requires_grad(false));
  return GradientsOf({loss}, {seed.view_as(loss)}, inputs);
}

UnitGraph::UnitGraph(const Unit& unit, const UnitContext& context,
                     const std::vector<ParameterView>& views, const torch::Tensor& x,
                     const Wanted& wanted)
    : x_(x.detach()) {
  torch::AutoGradMode grad(true);
  for (const ParameterView& view : views) {
    // Has a storage of its own, whose pointer can be replaced.
    torch::Tensor leaf =
        ViewAt(view.weights.data_ptr(), view.weights.sizes(), view.weights.strides(),
               view.weights.scalar_type(), view.weights.device());
    leaves_.push_back(leaf.requires_grad_(!view.frozen));
  }
  for (size_t i = 0; i < context.values().size(); ++i) {
    const torch::Tensor& value = context.values()[i];
    const bool wants = wanted.values[i] && value.is_floating_point();
    values_.push_back(value.detach().requires_grad_(wants));
  }
  if (wanted.input) x_.requires_grad_(true);
  y_ =
      ForwardOf(unit, context.With(context.batch(), values_).WithLosses(&losses_, context.labels()),
                Give(views, leaves_), x_);
}

UnitGraph::Gradients UnitGraph::Differentiate(const std::vector<ParameterView>& views,
                                              const torch::Tensor& output_gradient,
                                              double loss_gradient) && {
  SPILLWAY_CHECK(views.size() == leaves_.size() && y_.defined());
  // Weights that autograd saved, and views of them, share their leaf's storage: replacing its
  // pointer moves them all.
  for (size_t i = 0; i < views.size(); ++i) {
    leaves_[i].storage().set_data_ptr_noswap(
        {views[i].weights.data_ptr(), views[i].weights.device()});
  }
  // Outputs without gradient depend only on frozen parameters and values; those that get none are
  // not used by anything differentiable.
  std::vector<torch::Tensor> roots, root_gradients;
  const auto add_root = [&](const torch::Tensor& root, const torch::Tensor& gradient) {
    if (!root.requires_grad() || !gradient.defined()) return;
    roots.push_back(root);
    root_gradients.push_back(gradient);
  };
  add_root(std::exchange(y_, {}), output_gradient);
  for (const torch::Tensor& loss : std::exchange(losses_, {})) {
    add_root(loss, torch::full_like(loss, loss_gradient));
  }
  std::vector<torch::Tensor> inputs = leaves_;
  inputs.insert(inputs.end(), values_.begin(), values_.end());
  inputs.push_back(x_);
  const std::vector<torch::Tensor> found = GradientsOf(roots, root_gradients, inputs);
  const auto values_begin = found.begin() + static_cast<int64_t>(leaves_.size());
  return {{found.begin(), values_begin}, found.back(), {values_begin, found.end() - 1}};
}

}  // namespace spillway
