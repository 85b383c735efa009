#include "engine/families/activations.h"

namespace spillway {

const std::map<std::string, Activation>& ActivationNames() {
  static const auto& names = *new std::map<std::string, Activation>{
      {"gelu", Activation::kGelu},
      {"gelu_python", Activation::kGelu},
      {"gelu_10", Activation::kGelu10},
      {"gelu_accurate", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh},
      {"gelu_new", Activation::kGeluTanh},
      {"gelu_python_tanh", Activation::kGeluTanh},
      {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"hardswish", Activation::kHardswish},
      {"laplace", Activation::kLaplace},
      {"leaky_relu", Activation::kLeakyRelu},
      {"linear", Activation::kLinear},
      {"mish", Activation::kMish},
      {"quick_gelu", Activation::kQuickGelu},
      {"relu", Activation::kRelu},
      {"relu2", Activation::kRelu2},
      {"relu6", Activation::kRelu6},
      {"sigmoid", Activation::kSigmoid},
      {"silu", Activation::kSilu},
      {"sqrtsoftplus", Activation::kSqrtSoftplus},
      {"swish", Activation::kSilu},
      {"tanh", Activation::kTanh},
  };
  return names;
}

}  // namespace spillway
