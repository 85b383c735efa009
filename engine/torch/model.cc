#include "engine/torch/model.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <vector>

#include "engine/numeric/random.h"
#include "engine/torch/tensor_kernels.h"

namespace spillway {
namespace {

// Masks are a function of what they are for, so that backward makes them again instead of keeping
// them. The same on activations (forward) and on gradients (backward).
torch::Tensor ApplyMasks(const torch::Tensor& x, double p, const DropoutKey& key,
                         const std::vector<int64_t>& samples) {
  const torch::Tensor in = x.contiguous();
  torch::Tensor out = torch::empty_like(in);
  if (in.numel() > 0) KernelsOf(in.device()).Dropout(key, p, samples, in, out);
  return out;
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               double p, const DropoutKey& key,
                               const std::vector<int64_t>& samples) {
    context->saved_data["p"] = p;
    context->saved_data["seed"] = static_cast<int64_t>(key.seed);
    context->saved_data["step"] = static_cast<int64_t>(key.step);
    context->saved_data["unit"] = static_cast<int64_t>(key.unit);
    context->saved_data["site"] = static_cast<int64_t>(key.site);
    context->saved_data["samples"] = samples;
    return ApplyMasks(x, p, key, samples);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto integer = [&](const char* name) { return context->saved_data[name].toInt(); };
    DropoutKey key;
    key.seed = static_cast<uint64_t>(integer("seed"));
    key.step = static_cast<uint64_t>(integer("step"));
    key.unit = static_cast<uint32_t>(integer("unit"));
    key.site = static_cast<uint32_t>(integer("site"));
    const torch::Tensor gradient = ApplyMasks(gradients[0], context->saved_data["p"].toDouble(),
                                              key, context->saved_data["samples"].toIntVector());
    return {gradient, torch::Tensor(), torch::Tensor(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor UnitContext::Dropout(const torch::Tensor& x, double p, int site) const {
  TORCH_CHECK(p >= 0 && p < 1, "Dropout: probability ", p, " is not at least 0 and less than 1");
  if (!training_ || p == 0) return x;
  TORCH_CHECK(x.dim() > 0 && x.size(0) == static_cast<int64_t>(samples_.size()), "Dropout: x is ",
              x.sizes(), ", but its first dimension must be the ", samples_.size(),
              " samples of the micro-batch");
  DropoutKey key;
  key.seed = seed_;
  key.step = static_cast<uint64_t>(step_);
  key.unit = static_cast<uint32_t>(unit_);
  key.site = static_cast<uint32_t>(site);
  return DropoutFunction::apply(x, p, key, samples_);
}

}  // namespace spillway
