// The activations in transformers' configs.
#pragma once

#include <torch/types.h>

#include "engine/families/activations.h"

namespace spillway {

// Elementwise; the result has x's shape and dtype.
torch::Tensor Activate(Activation activation, const torch::Tensor& x);

}  // namespace spillway
