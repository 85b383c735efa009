// The arithmetic of a step in a GPU's memory: what engine/numeric/update_loops.h and
// engine/numeric/random.h do in the host's, to the same bits.
//
// Each call puts a kernel into `stream` (a cudaStream_t) and returns; every pointer is to the
// device's memory and stays valid until the stream has come past. Any thread.
//
// A kernel is a .cu file of its own here, and nothing but a frame: which thread does what is in
// the *_body.h beside it, in plain C++, so that tests run it on the CPU
// (tests/engine/cuda/emulated_kernels.cc). No header here needs one of CUDA's or LibTorch's.
#pragma once

#include <cstdint>

#include "engine/numeric/number_formats.h"
#include "engine/numeric/update_kind.h"

namespace spillway {

// Null: the kernel is in the stream. Else CUDA's reason why it is not, or kNoKernels.
using LaunchError = const char*;
// Told apart by its text: what has been compiled does not run on this GPU.
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
