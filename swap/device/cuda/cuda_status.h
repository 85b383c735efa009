// From what the CUDA runtime says to what a person can act on. For the sources of this folder
// only: no other includes CUDA's headers.
#pragma once

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// The one table from a CUDA error to a status code and a remedy. `what` names the call and what
// it was about: "cudaMemcpyAsync of 64 MiB". REQUIRES: `error` is one.
//
// The runtime also keeps a call's error as the thread's last one, and LibTorch would take that
// for an error of the next kernel it launches; so it is cleared here.
absl::Status CudaStatus(cudaError_t error, absl::string_view what);

}  // namespace spillway
