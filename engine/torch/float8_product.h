// Products of matrices whose elements are first rounded to 8 bits (--compute fp8), as in "FP8
// Formats for Deep Learning" (Micikevicius et al., 2022) and in Transformer Engine with current
// scaling: inputs and weights in E4M3, gradients of outputs in E5M2, which has a larger range.
#pragma once

#include <torch/types.h>

namespace spillway {

// A matrix in 8 bits: `values` (E4M3 or E5M2) times `scale`, one fp32 number on the same device.
struct Float8Matrix {
  torch::Tensor values;
  torch::Tensor scale;

  Float8Matrix t() const { return {values.t(), scale}; }
};

// The scale maps the largest magnitude of x [rows, columns] to the format's (E4M3's 448, E5M2's
// 57,344); each element is rounded to the nearest. Non-finite elements make non-finite products.
// Needs about 8 MiB besides the result, on a GPU 64. The same bits on CPU and GPU.
Float8Matrix RoundToFloat8(const torch::Tensor& x, torch::ScalarType format);

// a [m, k] @ b [k, n] + bias [n] (undefined: none) -> [m, n] in `dtype`: sums in fp32, rounded
// once.
torch::Tensor MultiplyFloat8(const Float8Matrix& a, const Float8Matrix& b,
                             const torch::Tensor& bias, torch::ScalarType dtype);

// MultiplyFloat8 with a GPU's instructions (torch::_scaled_mm), which need sizes that are multiples
// of 16: others are padded with zeros. `dtype` has 16 bits; a bias has that dtype.
torch::Tensor MultiplyFloat8Natively(const Float8Matrix& a, const Float8Matrix& b,
                                     const torch::Tensor& bias, torch::ScalarType dtype);

// x [n, in] @ weight [in, out] + bias [out] (undefined: none), weight of any strides, and its
// gradients, from 8-bit operands. Keeps x and weight for the backward, like Project.
torch::Tensor ProjectInFloat8(const torch::Tensor& x, const torch::Tensor& weight,
                              const torch::Tensor& bias);

}  // namespace spillway
