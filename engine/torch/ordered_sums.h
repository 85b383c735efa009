// Sums in a fixed order with LibTorch's operations, for devices on which its usual ones use atomic
// additions. None of these waits for the device.
#pragma once

#include <torch/types.h>

namespace spillway {

// out[t] = the sum of the rows i of `gradient` [n, D] with ids[i] = t, in order of i: [rows, D]
// of gradient's dtype. Summed in fp32 and rounded once. ids: n of int64, any shape.
torch::Tensor SumRowsByToken(const torch::Tensor& gradient, const torch::Tensor& ids, int64_t rows);

// values[i][index[i][0]] -= amount: values [n, V], contiguous; index [n, 1] int64.
void SubtractPerRow(torch::Tensor& values, const torch::Tensor& index, double amount);

}  // namespace spillway
