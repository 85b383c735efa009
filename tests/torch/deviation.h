// How near two tensors are.
#pragma once

#include <torch/types.h>

namespace spillway {

// |a - b| over |b|, as vectors, in double.
inline double Deviation(const torch::Tensor& a, const torch::Tensor& b) {
  const double difference = (a.to(torch::kFloat64) - b.to(torch::kFloat64)).norm().item<double>();
  return difference / (b.to(torch::kFloat64).norm().item<double>() + 1e-30);
}

// The part of elements of `found` that are the exact ones, rounded once.
inline double Rounded(const torch::Tensor& found, const torch::Tensor& exact) {
  return found.eq(exact.to(found.scalar_type())).to(torch::kFloat64).mean().item<double>();
}

}  // namespace spillway
