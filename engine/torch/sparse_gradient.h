// Sparse gradients, with rows only for the rows of a parameter that samples used: for an embedding
// of a thousand tokens a hundredth of its matrix. Adding one touches only those rows.
#pragma once

#include <torch/types.h>

namespace spillway {

// gradient [V, ...]: sparse (COO) in its first dimension, on the CPU, of a run's dtype. sums [V,
// ...] becomes (first ? 0 : sums) + gradient; it is in fp32, or with `rounded` in the gradient's
// dtype (AccumulateRounded, engine/numeric/optimizer.h). Rows that occur twice are first summed in
// the gradient's dtype. Bits do not depend on threads. Throws LibTorch's exceptions.
void AccumulateSparse(const torch::Tensor& gradient, char* sums, bool rounded, bool first);

// Whether AccumulateSparse accepts it; otherwise it must be made dense.
bool HasSparseRows(const torch::Tensor& gradient);

}  // namespace spillway
