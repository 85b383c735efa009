// Our own arithmetic on LibTorch's tensors, by device: operations that must give the same bits on
// all devices, and those that LibTorch lacks.
//
// The CPU's kernels are here; those of CUDA (engine/torch/cuda/cuda_kernels.h) register themselves
// if the build has them, like LibTorch's own.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "engine/numeric/gradient_loops.h"
#include "engine/numeric/random.h"

namespace spillway {

// Called on the compute thread and, from backwards, on autograd's. On a device with streams, work
// is put into LibTorch's current one without waiting. Throws LibTorch's exceptions.
class TensorKernels {
 public:
  virtual ~TensorKernels() = default;

  // sums[i] = (first ? 0 : sums[i]) + gradient[i], in fp32. `gradient`: contiguous, of a run's
  // dtype; `sums`: memory of the same device.
  virtual void AccumulateGradient(const torch::Tensor& gradient, float* sums, bool first) = 0;
  // AccumulateGradient for sums in the gradient's dtype, of at most two terms
  // (engine/numeric/optimizer.h).
  virtual void AccumulateRounded(const torch::Tensor& gradient, void* sums, bool first) = 0;
  virtual void FillZero(void* data, uint64_t bytes) = 0;
  // out = DropoutApply(in) (engine/numeric/random.h) with the mask of samples[i] for row i;
  // key.sample is ignored. Both contiguous, of one shape and dtype.
  virtual void Dropout(const DropoutKey& key, double p, const std::vector<int64_t>& samples,
                       const torch::Tensor& in, const torch::Tensor& out) = 0;
};

// Throws for a device without kernels.
TensorKernels& KernelsOf(const torch::Device& device);

// Sets the kernels of all devices of that type, which outlive their use. Null: none. Returns the
// previous ones (null: none). REQUIRES: nothing is computing.
TensorKernels* PlugInKernels(torch::DeviceType type, TensorKernels* kernels);

// The run's dtype of `x`; throws for other ones. `what` names the caller.
DType DTypeOf(const torch::Tensor& x, const char* what);

}  // namespace spillway
