// Gradients that have rows where a sample used a parameter's, and none elsewhere: an embedding's
// of a thousand tokens is a hundredth of its matrix. Adding them touches those rows only.
#pragma once

#include <torch/types.h>

namespace spillway {

// gradient [V, ...]: sparse (COO) in its first dimension, on the CPU, of a run's dtype. sums [V,
// ...] becomes (first ? 0 : sums) + gradient; it is in fp32, or where `rounded` in the gradient's
// dtype (AccumulateRounded, engine/numeric/optimizer.h). Rows that occur twice are summed before,
// in the gradient's dtype. Threads change no bit. Throws LibTorch's exceptions.
void AccumulateSparse(const torch::Tensor& gradient, char* sums, bool rounded, bool first);

// Whether AccumulateSparse takes it; otherwise it is to be made dense.
bool HasSparseRows(const torch::Tensor& gradient);

}  // namespace spillway
