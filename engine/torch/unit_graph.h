// One unit's forward on one micro-batch with autograd on, kept until it is differentiated:
// at once (the unit is recomputed in its backward), or a step's length later (its graph was
// kept). Both ways give the same bits. Compute thread; may throw LibTorch's exceptions.
#pragma once

#include <vector>

#include "engine/torch/model.h"
#include "engine/torch/tensor_views.h"

namespace spillway {

// The unit's Forward on `parameters`. Throws where it changes in place what it is given other than
// buffers: that is read again, by this unit and by others.
torch::Tensor ForwardOf(const Unit& unit, const UnitContext& context,
                        const GivenParameters& parameters, const torch::Tensor& x);

// Of the chunk of a loss that `labels` belong to: the gradients of those of `inputs` that require
// one. Undefined where the loss has none, as where no label of the chunk counts.
std::vector<torch::Tensor> GradientsOfLoss(const torch::Tensor& loss, double loss_gradient,
                                           const std::vector<torch::Tensor>& inputs,
                                           const torch::Tensor& labels);

class UnitGraph {
 public:
  // What gradients are wanted beside those of parameters that are not frozen.
  struct Wanted {
    bool input = false;        // of x
    std::vector<bool> values;  // of the context's
  };

  // `context`, `views`, `x`: as for Unit::Forward.
  UnitGraph(const Unit& unit, const UnitContext& context, const std::vector<ParameterView>& views,
            const torch::Tensor& x, const Wanted& wanted);

  // What the unit computed, without its graph.
  torch::Tensor output() const { return y_.detach(); }

  // What it added to the loss (UnitContext::AddLoss).
  const std::vector<torch::Tensor>& losses() const { return losses_; }

  struct Gradients {
    // By view; undefined where it is frozen, or the output has none of it.
    std::vector<torch::Tensor> parameters;
    torch::Tensor input;                // undefined unless wanted
    std::vector<torch::Tensor> values;  // of the context's; undefined where unused or unwanted
  };
  // Differentiates, once; what the graph held is freed as it goes. `views` say where the
  // weights are now: at other addresses perhaps, with the bits they had in the forward.
  // `output_gradient`: undefined where nothing behind the unit depends on its output.
  // `loss_gradient`: of each of losses().
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
