#include "engine/torch/unit_graph.h"

#include <torch/autograd.h>

#include <utility>

#include "io/base/check.h"

namespace spillway {

UnitGraph::UnitGraph(const Unit& unit, const UnitContext& context,
                     const std::vector<ParameterView>& views, const torch::Tensor& x,
                     const Wanted& wanted)
    : x_(x.detach()) {
  torch::AutoGradMode grad(true);
  for (const ParameterView& view : views) {
    // With a storage of its own, which can be pointed elsewhere.
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
  GivenParameters given = Give(views, leaves_);
  y_ = unit.Forward(context.With(context.batch(), values_)
                        .WithPacked(std::move(given.packed))
                        .WithLosses(&losses_, context.labels()),
                    given.tensors, x_);
}

UnitGraph::Gradients UnitGraph::Differentiate(const std::vector<ParameterView>& views,
                                              const torch::Tensor& output_gradient,
                                              double loss_gradient) && {
  SPILLWAY_CHECK(views.size() == leaves_.size() && y_.defined());
  // Weights that autograd saved, and views of them, share their leaf's storage: where that
  // points now, all of them do.
  for (size_t i = 0; i < views.size(); ++i) {
    leaves_[i].storage().set_data_ptr_noswap(
        {views[i].weights.data_ptr(), views[i].weights.device()});
  }
  std::vector<torch::Tensor> inputs;
  const auto each = [&](const auto& visit) {
    for (const torch::Tensor& leaf : leaves_) visit(leaf);
    for (const torch::Tensor& value : values_) visit(value);
    visit(x_);
  };
  each([&](const torch::Tensor& one) {
    if (one.requires_grad()) inputs.push_back(one);
  });
  // What needs no gradient comes from frozen parameters and values alone.
  std::vector<torch::Tensor> roots, root_gradients;
  const auto add_root = [&](const torch::Tensor& root, const torch::Tensor& gradient) {
    if (!root.requires_grad()) return;
    roots.push_back(root);
    root_gradients.push_back(gradient);
  };
  add_root(std::exchange(y_, {}), output_gradient);
  for (const torch::Tensor& loss : std::exchange(losses_, {})) {
    add_root(loss, torch::full_like(loss, loss_gradient));
  }
  std::vector<torch::Tensor> gradients(inputs.size());
  if (!roots.empty()) {
    gradients = torch::autograd::grad(roots, inputs, root_gradients, /*retain_graph=*/false,
                                      /*create_graph=*/false, /*allow_unused=*/true);
  }
  auto next = gradients.begin();
  std::vector<torch::Tensor> found;  // by what was visited
  each([&](const torch::Tensor& one) {
    found.push_back(one.requires_grad() ? *next++ : torch::Tensor());
  });
  const auto values_begin = found.begin() + static_cast<int64_t>(leaves_.size());
  return {{found.begin(), values_begin}, found.back(), {values_begin, found.end() - 1}};
}

}  // namespace spillway
