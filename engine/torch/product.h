// Products in fp32 of matrices whose elements have fewer bits: for processors with slower products
// of those (--compute fp32), or none.
#pragma once

#include <torch/types.h>

#include "engine/numeric/product_blocks.h"

namespace spillway {

// out [m, n] = scale (one number; undefined: 1) * a [m, k] @ b [k, n] + bias [n] (undefined: none),
// each of any dtype and strides: computed in fp32 and rounded once. Allocates blocks of at most
// `most` x `most`. Not differentiable.
void MultiplyInFp32(const torch::Tensor& a, const torch::Tensor& b, const torch::Tensor& scale,
                    const torch::Tensor& bias, torch::Tensor out,
                    int64_t most = ProductBlocks::kMost);

// MultiplyInFp32 without a scale, of one dtype, into a new matrix of that dtype.
torch::Tensor ProductInFp32(const torch::Tensor& a, const torch::Tensor& b,
                            const torch::Tensor& bias = {}, int64_t most = ProductBlocks::kMost);

// x [n, in] @ weight [in, out] + bias [out] (undefined: none), weight of any strides. In fp32 as
// above, also its gradients, or (`in_fp32` false) like torch::addmm.
torch::Tensor Project(const torch::Tensor& x, const torch::Tensor& weight,
                      const torch::Tensor& bias, bool in_fp32);

}  // namespace spillway
