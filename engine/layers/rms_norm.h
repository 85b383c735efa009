// Root-mean-square layer normalisation, as in Llama.
#pragma once

#include <torch/types.h>

namespace spillway {

// x [..., D], weight [D], one dtype -> x / sqrt(mean(x^2) + epsilon) * weight, of x's shape and
// dtype. The mean and the quotient are in fp32; the quotient is rounded before the product, like
// transformers' LlamaRMSNorm. Backward keeps x and recomputes the rest.
torch::Tensor RmsNorm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon);

}  // namespace spillway
