#include "engine/cuda/device_arithmetic.h"

#include "engine/cuda/accumulate_body.h"
#include "engine/cuda/code_body.h"
#include "engine/cuda/dropout_body.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/launch_status.h"
#include "engine/cuda/round_body.h"
#include "engine/numeric/dropout_mask.h"
#include "io/base/check.h"

namespace spillway {

absl::Status AccumulateGradientOnDevice(void* stream, DType dtype, const void* gradient,
                                        uint64_t count, float* sums, bool first) {
  return LaunchStatus(
      "gradient accumulation",
      LaunchAccumulate(stream, dtype, first, {.gradient = gradient, .sums = sums, .count = count}));
}

absl::Status EncodeSumsOnDevice(void* stream, ExchangeFormat format, const float* sums,
                                uint64_t count, char* out, void* scratch) {
  SPILLWAY_CHECK(format != ExchangeFormat::kFloat32);
  if (format == ExchangeFormat::kFloat8) {
    return LaunchStatus(
        "gradients in 8 bits",
        LaunchCode(stream, {.sums = sums,
                            .codes = reinterpret_cast<uint8_t*>(out),
                            .scales = reinterpret_cast<float*>(out + Float8ScalesOffset(count)),
                            .count = count}));
  }
  // One multiprocessor per block; the squares are not used.
  constexpr uint64_t kBlocks = kRoundScratchBytes / sizeof(RoundedPartial);
  const uint64_t parameters =
      ((count + kBlocks - 1) / kBlocks + kRoundChunk - 1) / kRoundChunk * kRoundChunk;
  return LaunchStatus("rounding gradients",
                      LaunchRound(stream, DType::kBFloat16,
                                  {.sums = sums,
                                   .gradient = out,
                                   .gradient_stride_bytes = parameters * sizeof(uint16_t),
                                   .partials = static_cast<RoundedPartial*>(scratch),
                                   .parameters = parameters,
                                   .total = count}));
}

absl::Status AddExchangedOnDevice(void* stream, ExchangeFormat format, const char* in,
                                  uint64_t count, float* sums, bool first) {
  if (format == ExchangeFormat::kFloat8) {
    return LaunchStatus(
        "adding gradients in 8 bits",
        LaunchAccumulateCoded(
            stream, first,
            {.codes = reinterpret_cast<const uint8_t*>(in),
             .scales = reinterpret_cast<const float*>(in + Float8ScalesOffset(count)),
             .sums = sums,
             .count = count}));
  }
  return AccumulateGradientOnDevice(
      stream, format == ExchangeFormat::kBFloat16 ? DType::kBFloat16 : DType::kFloat32, in, count,
      sums, first);
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
