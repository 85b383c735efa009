// Measures the rate of matrix products on this machine, for models without a dry run.
#pragma once

#include "absl/status/statusor.h"
#include "engine/numeric/dtype.h"
#include "engine/torch/compute_place.h"

namespace spillway {

// Floating-point operations a second of a product of two matrices as large as in a small layer,
// with LibTorch's current number of threads. Takes a few tenths of a second and 30 MiB.
absl::StatusOr<double> MeasureMatrixFlops(DType dtype, const ComputePlace& place = {});

}  // namespace spillway
