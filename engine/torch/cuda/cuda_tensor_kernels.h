// Implements TensorKernels by engine/cuda/kernels.h, in LibTorch's current stream.
#pragma once

#include "engine/torch/tensor_kernels.h"

namespace spillway {

// Any thread. One for all GPUs; never destroyed.
TensorKernels* CudaTensorKernels();

}  // namespace spillway
