// The activations of transformers' configs, by its names (activations.py).
#pragma once

#include <map>
#include <string>

namespace spillway {

enum class Activation {
  kGelu,
  kGeluTanh,
  kQuickGelu,
  kGelu10,  // gelu clipped to [-10, 10]
  kRelu,
  kRelu2,
  kRelu6,
  kLeakyRelu,
  kSilu,
  kMish,
  kHardswish,
  kSigmoid,
  kTanh,
  kSqrtSoftplus,
  kLaplace,
  kLinear,
};

// Several names may mean one function. Those that bring parameters of their own (prelu, xielu) are
// not among them.
const std::map<std::string, Activation>& ActivationNames();

}  // namespace spillway
