// The linker uses this if no other object defines the function: see engine/torch/cuda/.
#include "engine/torch/cuda_support.h"

namespace spillway {

CudaSupport* LinkedCuda() { return nullptr; }

}  // namespace spillway
