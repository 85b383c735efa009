// AccumulateGradient (engine/numeric/gradient_loops.h), EncodeSums and AddExchanged
// (engine/numeric/exchange_format.h) and DropoutApply (engine/numeric/random.h) in GPU memory, to
// the same bits, as kernels in a stream (cudaStream_t). An error is a launch that CUDA refused. Any
// thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/numeric/exchange_format.h"
#include "engine/numeric/random.h"

namespace spillway {

absl::Status AccumulateGradientOnDevice(void* stream, DType dtype, const void* gradient,
                                        uint64_t count, float* sums, bool first);

// `scratch`: kRoundScratchBytes of GPU memory, 64-byte aligned.
inline constexpr uint64_t kRoundScratchBytes = 4096;
absl::Status EncodeSumsOnDevice(void* stream, ExchangeFormat format, const float* sums,
                                uint64_t count, char* out, void* scratch);
absl::Status AddExchangedOnDevice(void* stream, ExchangeFormat format, const char* in,
                                  uint64_t count, float* sums, bool first);

absl::Status DropoutApplyOnDevice(void* stream, const DropoutKey& key, double p, uint64_t begin,
                                  uint64_t count, DType dtype, const void* in, void* out);

}  // namespace spillway
