#include "engine/torch/compute_rate.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/torch/tensor_views.h"
#include "io/base/clock.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr int64_t kRows = 512;    // tokens
constexpr int64_t kWidth = 1024;  // hidden size
constexpr double kMostSeconds = 0.4;

}  // namespace

absl::StatusOr<double> MeasureMatrixFlops(DType dtype, const ComputePlace& place) {
  try {
    torch::NoGradGuard no_grad;
    const ComputeScope scope(place);
    const auto options = torch::TensorOptions(place.where).dtype(ScalarTypeOf(dtype));
    const torch::Tensor x = torch::full({kRows, kWidth}, 0.01, options);
    const torch::Tensor weight = torch::full({kWidth, 4 * kWidth}, 0.01, options);
    torch::Tensor product = torch::empty({kRows, 4 * kWidth}, options);
    const double began = MonotonicSeconds();
    double least = 0;
    // The first repeat starts threads and builds kernels.
    for (int repeat = 0; repeat < 6; ++repeat) {
      RETURN_IF_ERROR(Settle(place));
      const double start = MonotonicSeconds();
      torch::mm_out(product, x, weight);
      RETURN_IF_ERROR(Settle(place));
      const double seconds = MonotonicSeconds() - start;
      least = repeat < 2 ? seconds : std::min(least, seconds);
      if (MonotonicSeconds() - began > kMostSeconds) break;
    }
    return 2.0 * kRows * kWidth * 4 * kWidth / std::max(least, 1e-9);
  } catch (const c10::Error& error) {
    return absl::InternalError(
        absl::StrCat("measuring a matrix product: ", error.what_without_backtrace()));
  }
}

}  // namespace spillway
