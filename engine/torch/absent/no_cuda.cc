// Taken from the library where no other object defines it: see engine/torch/cuda/.
#include "engine/torch/cuda_support.h"

namespace spillway {

CudaSupport* LinkedCuda() { return nullptr; }

}  // namespace spillway
