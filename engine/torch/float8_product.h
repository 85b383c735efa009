// Products of matrices whose elements are rounded to 8 bits first (--compute fp8), as "FP8 Formats
// for Deep Learning" (Micikevicius et al., 2022) has them and Transformer Engine with current
// scaling: inputs and weights in E4M3, gradients of outputs in E5M2, which reaches further.
#pragma once

#include <torch/types.h>

namespace spillway {

// A matrix in 8 bits: `values` (E4M3 or E5M2) times `scale`, one fp32 number where the values are.
struct Float8Matrix {
  torch::Tensor values;
  torch::Tensor scale;

  Float8Matrix t() const { return {values.t(), scale}; }
};

// The scale maps the largest magnitude of x [rows, columns] to the format's (E4M3's 448, E5M2's
// 57,344); then every element is the nearest. What is not finite makes products that are not.
// Besides the result it takes some 8 MiB, on a GPU 64. The same bits on CPU and GPU.
Float8Matrix RoundToFloat8(const torch::Tensor& x, torch::ScalarType format);

// a [m, k] @ b [k, n] + bias [n] (undefined: none) -> [m, n] in `dtype`: sums in fp32, rounded
// once.
torch::Tensor MultiplyFloat8(const Float8Matrix& a, const Float8Matrix& b,
                             const torch::Tensor& bias, torch::ScalarType dtype);

// The same by the instructions of a GPU (torch::_scaled_mm), which want sides of whole 16s: zeros
// are put beside what has others. `dtype` has 16 bits; where there is a bias it has that dtype.
torch::Tensor MultiplyFloat8Natively(const Float8Matrix& a, const Float8Matrix& b,
                                     const torch::Tensor& bias, torch::ScalarType dtype);

// x [n, in] @ weight [in, out] + bias [out] (undefined: none), weight of any strides, and its
// gradients, from operands in 8 bits. Keeps x and weight for the backward, as Project does.
torch::Tensor ProjectInFloat8(const torch::Tensor& x, const torch::Tensor& weight,
                              const torch::Tensor& bias);

}  // namespace spillway
