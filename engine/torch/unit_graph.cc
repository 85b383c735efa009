#include "engine/torch/unit_graph.h"

#include <torch/autograd.h>

#include <utility>

#include "io/base/check.h"

namespace spillway {

UnitGraph::UnitGraph(const Unit& unit, const UnitContext& context,
                     const std::vector<ParameterView>& views, const torch::Tensor& x,
                     bool needs_input_gradient)
    : x_(x.detach()) {
  torch::AutoGradMode grad(true);
  for (const ParameterView& view : views) {
    // With a storage of its own, which can be pointed elsewhere.
    torch::Tensor leaf =
        ViewAt(view.weights.data_ptr(), view.weights.sizes(), view.weights.strides(),
               view.weights.scalar_type(), view.weights.device());
    leaves_.push_back(leaf.requires_grad_(true));
  }
  if (needs_input_gradient) x_.requires_grad_(true);
  y_ = unit.Forward(context, leaves_, x_);
}

UnitGraph::Gradients UnitGraph::Differentiate(const std::vector<ParameterView>& views,
                                              const torch::Tensor& output_gradient) && {
  SPILLWAY_CHECK(views.size() == leaves_.size() && y_.defined());
  // Weights that autograd saved, and views of them, share their leaf's storage: where that
  // points now, all of them do.
  for (size_t i = 0; i < views.size(); ++i) {
    leaves_[i].storage().set_data_ptr_noswap(
        {views[i].weights.data_ptr(), views[i].weights.device()});
  }
  std::vector<torch::Tensor> inputs = leaves_;
  if (x_.requires_grad()) inputs.push_back(x_);
  Gradients found;
  found.parameters =
      torch::autograd::grad({std::exchange(y_, {})}, inputs, {output_gradient},
                            /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  if (x_.requires_grad()) {
    found.input = std::move(found.parameters.back());
    found.parameters.pop_back();
  }
  return found;
}

}  // namespace spillway
