#include "engine/layers/activation.h"

#include <cmath>

namespace spillway {

torch::Tensor Activate(Activation activation, const torch::Tensor& x) {
  switch (activation) {
    case Activation::kGelu:
      return torch::gelu(x);
    case Activation::kGeluTanh:
      return torch::gelu(x, "tanh");
    case Activation::kQuickGelu:  // github.com/hendrycks/GELUs
      return x * torch::sigmoid(1.702 * x);
    case Activation::kGelu10:
      return torch::clamp(torch::gelu(x), -10, 10);
    case Activation::kRelu:
      return torch::relu(x);
    case Activation::kRelu2:
      return torch::square(torch::relu(x));
    case Activation::kRelu6:
      return torch::clamp(x, 0, 6);
    case Activation::kLeakyRelu:
      return torch::leaky_relu(x, 0.01);
    case Activation::kSilu:
      return torch::silu(x);
    case Activation::kMish:
      return torch::mish(x);
    case Activation::kHardswish:
      return torch::hardswish(x);
    case Activation::kSigmoid:
      return torch::sigmoid(x);
    case Activation::kTanh:
      return torch::tanh(x);
    case Activation::kSqrtSoftplus:
      return torch::softplus(x).sqrt();
    case Activation::kLaplace:  // arXiv 2209.10655, with its constants
      return 0.5 * (1 + torch::erf((x - 0.707107) / (0.282095 * std::sqrt(2.0))));
    case Activation::kLinear:
      return x;
  }
  TORCH_CHECK(false, "unknown activation");
}

}  // namespace spillway
