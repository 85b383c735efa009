// Products with a packed matrix: blocks of it are unpacked to the operands' dtype, multiplied, and
// discarded.
#pragma once

#include <torch/types.h>

#include "engine/numeric/packed_matrix.h"

namespace spillway {

// x [n, in] @ W [out, in]^T + bias [out] (undefined: none), W packed in `bytes` (uint8), with the
// result of Project (product.h); about PackedShape::kMostUnpacked elements of W are unpacked at a
// time. Differentiable in x and bias. Blocks depend on the shape alone, and do not split sums.
torch::Tensor ProjectPacked(const torch::Tensor& x, const torch::Tensor& bytes,
                            const PackedShape& shape, const torch::Tensor& bias, bool in_fp32);

// Unpacks a part of a packed matrix to [rows, columns] in the dtype, on the device of `bytes`.
torch::Tensor UnpackPart(const torch::Tensor& bytes, const PackedShape& shape,
                         const MatrixPart& part, torch::ScalarType dtype);

// UnpackPart with LibTorch's own operations, for every device. Waits for the device only in a
// process's first call.
torch::Tensor UnpackByOperations(const torch::Tensor& bytes, const PackedShape& shape,
                                 const MatrixPart& part, torch::ScalarType dtype);

// Nf4Values and DynamicMap (engine/numeric/packed_matrix.h) on a device, read-only: the same tensor
// every time. Any thread.
torch::Tensor Nf4ValuesOn(const torch::Device& device);
torch::Tensor DynamicMapOn(const torch::Device& device);

}  // namespace spillway
