// Products of matrices in fp32 whose operands and results are of 16 bits: for processors that
// multiply those slower (--compute fp32).
#pragma once

#include <torch/types.h>

#include "engine/plan/product_blocks.h"

namespace spillway {

// a [m, k] @ b [k, n] + bias [n] (undefined: none), all of one dtype and of any strides ->
// [m, n] of that dtype: summed in fp32 and rounded once. Besides the result it takes the bytes of
// its blocks, which are at most `most` x `most`. Not differentiated.
torch::Tensor ProductInFp32(const torch::Tensor& a, const torch::Tensor& b,
                            const torch::Tensor& bias = {}, int64_t most = ProductBlocks::kMost);

// x [n, in] @ weight [in, out] + bias [out] (undefined: none), weight of any strides. In fp32 as
// above, its gradients too, or (`in_fp32` false) as torch::addmm does it.
torch::Tensor Project(const torch::Tensor& x, const torch::Tensor& weight,
                      const torch::Tensor& bias, bool in_fp32);

}  // namespace spillway
