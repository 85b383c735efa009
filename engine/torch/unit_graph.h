// One unit's forward on one micro-batch with autograd, kept until it is differentiated: at once
// (the unit is recomputed in its backward), or much later in the step (its graph was kept). Both
// give the same bits. Compute thread; may throw LibTorch's exceptions.
#pragma once

#include <vector>

#include "engine/torch/model.h"
#include "engine/torch/tensor_views.h"

namespace spillway {

// The unit's Forward on `parameters`. Throws if it changes an argument other than buffers in place:
// this unit and others read it again.
torch::Tensor ForwardOf(const Unit& unit, const UnitContext& context,
                        const GivenParameters& parameters, const torch::Tensor& x);

// For the chunk of a loss with `labels`: the gradients of those of `inputs` that require one.
// Undefined if the loss has none, for example if no label of the chunk counts.
std::vector<torch::Tensor> GradientsOfLoss(const torch::Tensor& loss, double loss_gradient,
                                           const std::vector<torch::Tensor>& inputs,
                                           const torch::Tensor& labels);

class UnitGraph {
 public:
  // The gradients wanted in addition to those of trained parameters.
  struct Wanted {
    bool input = false;        // of x
    std::vector<bool> values;  // of the context's
  };

  // `context`, `views`, `x`: as for Unit::Forward.
  UnitGraph(const Unit& unit, const UnitContext& context, const std::vector<ParameterView>& views,
            const torch::Tensor& x, const Wanted& wanted);

  // The unit's output, without its graph.
  torch::Tensor output() const { return y_.detach(); }

  // The terms that it added to the loss (UnitContext::AddLoss).
  const std::vector<torch::Tensor>& losses() const { return losses_; }

  struct Gradients {
    // By view; undefined if it is frozen, or the output does not depend on it.
    std::vector<torch::Tensor> parameters;
    torch::Tensor input;                // undefined unless wanted
    std::vector<torch::Tensor> values;  // of the context's values; undefined if unused or unwanted
  };
  // Differentiates once, and frees the graph meanwhile. `views`: the weights' current addresses,
  // which may have changed, with the bits they had in the forward. `output_gradient`: undefined if
  // nothing depends on the unit's output. `loss_gradient`: of each of losses().
  Gradients Differentiate(const std::vector<ParameterView>& views,
                          const torch::Tensor& output_gradient, double loss_gradient) &&;

 private:
  std::vector<torch::Tensor> leaves_;  // the parameters
  std::vector<torch::Tensor> values_;
  torch::Tensor x_;
  torch::Tensor y_;
  std::vector<torch::Tensor> losses_;
};

}  // namespace spillway
