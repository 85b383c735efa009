#include "engine/cuda/device_arithmetic.h"

#include "engine/cuda/accumulate_body.h"
#include "engine/cuda/dropout_body.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/launch_status.h"
#include "engine/cuda/round_body.h"
#include "engine/numeric/dropout_mask.h"

namespace spillway {

absl::Status AccumulateGradientOnDevice(void* stream, DType dtype, const void* gradient,
                                        uint64_t count, float* sums, bool first) {
  return LaunchStatus(
      "gradient accumulation",
      LaunchAccumulate(stream, dtype, first, {.gradient = gradient, .sums = sums, .count = count}));
}

absl::Status RoundGradientOnDevice(void* stream, DType dtype, const float* sums, void* gradient,
                                   uint64_t count, void* scratch) {
  // A multiprocessor each, and squares that nobody asked for.
  constexpr uint64_t kBlocks = kRoundScratchBytes / sizeof(RoundedPartial);
  const uint64_t parameters =
      ((count + kBlocks - 1) / kBlocks + kRoundChunk - 1) / kRoundChunk * kRoundChunk;
  return LaunchStatus("rounding gradients",
                      LaunchRound(stream, dtype,
                                  {.sums = sums,
                                   .gradient = static_cast<char*>(gradient),
                                   .gradient_stride_bytes = parameters * DTypeBytes(dtype),
                                   .partials = static_cast<RoundedPartial*>(scratch),
                                   .parameters = parameters,
                                   .total = count}));
}

absl::Status DropoutApplyOnDevice(void* stream, const DropoutKey& key, double p, uint64_t begin,
                                  uint64_t count, DType dtype, const void* in, void* out) {
  return LaunchStatus("dropout", LaunchDropout(stream, dtype,
                                               {.key = DropoutMaskKeyOf(key, p),
                                                .scale = DropoutScale(p),
                                                .begin = begin,
                                                .count = count,
                                                .in = in,
                                                .out = out}));
}

}  // namespace spillway
