// Products of matrices in fp32 whose operands and results have fewer bits: for processors that
// multiply those slower (--compute fp32), or not at all.
#pragma once

#include <torch/types.h>

#include "engine/numeric/product_blocks.h"

namespace spillway {

// out [m, n] = scale (one number; undefined: 1) * a [m, k] @ b [k, n] + bias [n] (undefined: none),
// each of any dtype and strides: computed in fp32 and rounded once. It takes the bytes of its
// blocks, which are at most `most` x `most`. Not differentiated.
void MultiplyInFp32(const torch::Tensor& a, const torch::Tensor& b, const torch::Tensor& scale,
                    const torch::Tensor& bias, torch::Tensor out,
                    int64_t most = ProductBlocks::kMost);

// The same without a scale, of one dtype, into a new matrix of that.
torch::Tensor ProductInFp32(const torch::Tensor& a, const torch::Tensor& b,
                            const torch::Tensor& bias = {}, int64_t most = ProductBlocks::kMost);

// x [n, in] @ weight [in, out] + bias [out] (undefined: none), weight of any strides. In fp32 as
// above, its gradients too, or (`in_fp32` false) as torch::addmm does it.
torch::Tensor Project(const torch::Tensor& x, const torch::Tensor& weight,
                      const torch::Tensor& bias, bool in_fp32);

}  // namespace spillway
