// How far two tensors are apart.
#pragma once

#include <torch/types.h>

namespace spillway {

// |a - b| over |b|, as vectors, in double.
inline double Deviation(const torch::Tensor& a, const torch::Tensor& b) {
  const double difference = (a.to(torch::kFloat64) - b.to(torch::kFloat64)).norm().item<double>();
  return difference / (b.to(torch::kFloat64).norm().item<double>() + 1e-30);
}

}  // namespace spillway
