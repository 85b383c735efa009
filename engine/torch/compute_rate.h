// How fast this machine multiplies matrices: for models that can't be run dry.
#pragma once

#include "absl/status/statusor.h"
#include "engine/numeric/dtype.h"
#include "engine/torch/compute_place.h"

namespace spillway {

// Floating-point operations a second, of a product of two matrices about as large as a small
// layer's, with LibTorch's threads as they are set. A few tenths of a second, 30 MiB.
absl::StatusOr<double> MeasureMatrixFlops(DType dtype, const ComputePlace& place = {});

}  // namespace spillway
