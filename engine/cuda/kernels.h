// The arithmetic of a step in GPU memory: engine/numeric/update_loops.h and engine/numeric/random.h
// to the same bits.
//
// Each call launches a kernel in `stream` (a cudaStream_t) and returns; every pointer is to device
// memory that stays valid until the stream has passed. Any thread.
//
// A kernel is a .cu file that only wraps the per-thread code in the *_body.h beside it. That code
// is plain C++, so tests run it on the CPU (tests/engine/cuda/emulated_kernels.cc). No header here
// needs CUDA's or LibTorch's headers.
#pragma once

#include <cstdint>

#include "engine/numeric/number_formats.h"
#include "engine/numeric/update_kind.h"

namespace spillway {

// Null: the kernel was launched. Otherwise CUDA's reason, or kNoKernels.
using LaunchError = const char*;
// Recognised by its text: the compiled kernels do not run on this GPU.
inline constexpr char kNoKernels[] =
    "this build has no kernels for this GPU: use another GPU or a newer build";

struct AccumulateArguments;
struct AccumulateCodedArguments;
struct CodeArguments;
struct DropoutArguments;
struct RoundArguments;
struct UpdateArguments;

// The arguments are those of update_body.h, round_body.h, accumulate_body.h, code_body.h,
// dropout_body.h.
LaunchError LaunchUpdate(void* stream, const UpdateKind& kind, const UpdateArguments& arguments);
LaunchError LaunchRound(void* stream, DType dtype, const RoundArguments& arguments);
LaunchError LaunchAccumulate(void* stream, DType dtype, bool first,
                             const AccumulateArguments& arguments);
LaunchError LaunchCode(void* stream, const CodeArguments& arguments);
LaunchError LaunchAccumulateCoded(void* stream, bool first,
                                  const AccumulateCodedArguments& arguments);
LaunchError LaunchDropout(void* stream, DType dtype, const DropoutArguments& arguments);

// Sets bytes to zero.
LaunchError LaunchZero(void* stream, void* data, uint64_t bytes);

}  // namespace spillway
