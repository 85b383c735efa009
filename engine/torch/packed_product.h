// Products with a matrix that is kept packed: blocks of it are unpacked to the operands' dtype,
// multiplied, and forgotten.
#pragma once

#include <torch/types.h>

#include "engine/numeric/packed_matrix.h"

namespace spillway {

// x [n, in] @ W [out, in]^T + bias [out] (undefined: none), W packed in `bytes` (uint8), as Project
// (product.h) of the unpacked matrix, of which some PackedShape::kMostUnpacked elements exist at
// once. Differentiable in x and bias. Blocks follow from the shape alone, and no sum is cut by
// them.
torch::Tensor ProjectPacked(const torch::Tensor& x, const torch::Tensor& bytes,
                            const PackedShape& shape, const torch::Tensor& bias, bool in_fp32);

// A part of a packed matrix, [rows, columns] in the dtype, where `bytes` are.
torch::Tensor UnpackPart(const torch::Tensor& bytes, const PackedShape& shape,
                         const MatrixPart& part, torch::ScalarType dtype);

// The same with LibTorch's own operations, which every device has. Nothing of it waits for the
// device, but what a process unpacks there first.
torch::Tensor UnpackByOperations(const torch::Tensor& bytes, const PackedShape& shape,
                                 const MatrixPart& part, torch::ScalarType dtype);

// Nf4Values and DynamicMap (engine/numeric/packed_matrix.h) on a device, for reading: the same
// tensor every time. Any thread.
torch::Tensor Nf4ValuesOn(const torch::Device& device);
torch::Tensor DynamicMapOn(const torch::Device& device);

}  // namespace spillway
