// Replaces the kernels in builds without nvcc (every preset but cuda): there are no GPU streams, so
// nothing is launched.
#include "engine/cuda/kernels.h"

namespace spillway {
namespace {

constexpr LaunchError kAbsent = "this program was built without CUDA (tools/build cuda)";

}  // namespace

LaunchError LaunchUpdate(void*, const UpdateKind&, const UpdateArguments&) { return kAbsent; }
LaunchError LaunchRound(void*, DType, const RoundArguments&) { return kAbsent; }
LaunchError LaunchAccumulate(void*, DType, bool, const AccumulateArguments&) { return kAbsent; }
LaunchError LaunchCode(void*, const CodeArguments&) { return kAbsent; }
LaunchError LaunchAccumulateCoded(void*, bool, const AccumulateCodedArguments&) { return kAbsent; }
LaunchError LaunchDropout(void*, DType, const DropoutArguments&) { return kAbsent; }
LaunchError LaunchZero(void*, void*, uint64_t) { return kAbsent; }

}  // namespace spillway
