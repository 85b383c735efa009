// Arithmetic of our own on LibTorch's tensors, by the device they are on: what has to give the
// same bits everywhere, and what LibTorch has no operation for.
//
// The CPU's are here; those of CUDA (engine/torch/cuda/cuda_kernels.h) plug themselves in where
// the build has them, as LibTorch's own do.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "engine/numeric/gradient_loops.h"
#include "engine/numeric/random.h"

namespace spillway {

// Called on the compute thread and, from backwards, on autograd's. Where tensors have a stream,
// work is put into LibTorch's current one, and nothing waits. Throws LibTorch's exceptions.
class TensorKernels {
 public:
  virtual ~TensorKernels() = default;

  // sums[i] = (first ? 0 : sums[i]) + gradient[i], in fp32. `gradient`: contiguous, of a run's
  // dtype; `sums`: memory of the same device.
  virtual void AccumulateGradient(const torch::Tensor& gradient, float* sums, bool first) = 0;
  // The same for sums in the gradient's dtype, of two terms at most (engine/numeric/optimizer.h).
  virtual void AccumulateRounded(const torch::Tensor& gradient, void* sums, bool first) = 0;
  virtual void FillZero(void* data, uint64_t bytes) = 0;
  // out = DropoutApply(in) (engine/numeric/random.h) with the mask of samples[i] for row i;
  // key.sample is not used. Both contiguous, of one shape and dtype.
  virtual void Dropout(const DropoutKey& key, double p, const std::vector<int64_t>& samples,
                       const torch::Tensor& in, const torch::Tensor& out) = 0;
};

// Throws for a device that has none.
TensorKernels& KernelsOf(const torch::Device& device);

// From now on `kernels` are those of all devices of that type; it outlives its use. Null: none.
// Gives those before (null: none had been plugged in). Not beside computing.
TensorKernels* PlugInKernels(torch::DeviceType type, TensorKernels* kernels);

// The run's dtype that `x` has; throws for other ones. `what` is doing the asking.
DType DTypeOf(const torch::Tensor& x, const char* what);

}  // namespace spillway
