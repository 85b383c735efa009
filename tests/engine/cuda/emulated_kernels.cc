#include "tests/engine/cuda/emulated_kernels.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/cuda/accumulate_body.h"
#include "engine/cuda/code_body.h"
#include "engine/cuda/dropout_body.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/round_body.h"
#include "engine/cuda/update_body.h"
#include "engine/numeric/simd_dispatch.h"
#include "tests/engine/cuda/host_warp.h"

namespace spillway {
namespace {

const char* refused = nullptr;

// Blocks and threads in an order that no GPU promises: the last first.
template <typename Do>
void ForEachThread(uint64_t blocks, uint32_t threads, Do work) {
  for (uint64_t block = blocks; block-- > 0;) {
    for (uint32_t thread = threads; thread-- > 0;) work(block, thread);
  }
}

// The steps of update_kernel.cu's kernel; where it has a barrier, all threads have come.
template <WeightFormat kFormat, UpdateRule kRule, MomentFormat kMoments>
void UpdateBlock(const UpdateArguments& arguments, uint32_t block) {
  std::vector<UpdateThread<kFormat, kRule, kMoments>> threads;
  uint32_t maxima[2 * kUpdatePerThread] = {};
  CodedMoments<kMoments> coded;
  if constexpr (kMoments == MomentFormat::kEightBit) {
    coded = {&kSignedMomentCode, &kUnsignedMomentCode};
  }
  for (uint32_t t = 0; t < kUpdateThreads; ++t) threads.emplace_back(arguments, block, t);
  for (uint32_t t = kUpdateThreads; t-- > 0;) {
    const uint32_t bits = threads[t].Update(coded);
    *arguments.largest_unstorable_bits = std::max(*arguments.largest_unstorable_bits, bits);
  }
  if constexpr (IsCoded(kMoments)) {
    for (const auto& thread : threads) {
      for (uint32_t m = 0; m < 2 * kUpdatePerThread; ++m) {
        maxima[m] = std::max(maxima[m], thread.Magnitude(m));
      }
    }
    for (const auto& thread : threads) thread.Store(coded, maxima);
  }
}

// The steps of round_kernel.cu's kernel; where it has a barrier, all threads have come.
template <DType kDType>
void Round(const RoundArguments& arguments, uint64_t index) {
  RoundShared shared;
  std::memset(&shared, 0xff, sizeof(shared));  // NaN
  const RoundBlock<kDType> block(arguments, index);
  std::vector<RoundThread> registers(kRoundThreads);
  double sums[kRoundLanes] = {};
  const auto load = [&](uint64_t chunk) {
    for (uint32_t t = 0; t < kRoundThreads; ++t) block.Load(chunk, t, registers[t]);
  };
  load(0);
  for (uint64_t chunk = 0; chunk < block.chunks(); ++chunk) {
    for (uint32_t t = 0; t < kRoundThreads; ++t) block.Store(chunk, t, registers[t], shared);
    if (chunk + 1 < block.chunks()) load(chunk + 1);
    for (int lane = 0; lane < kRoundLanes; ++lane) {
      block.Add(HostWarp(), lane, sums[lane], shared);
    }
  }
  block.Finish(shared);
}

LaunchError Launch() {
  if (refused == nullptr) ++Launches().kernels;
  return refused;
}

}  // namespace

EmulatedLaunches& Launches() {
  static EmulatedLaunches launches;
  return launches;
}

RefusedLaunches::RefusedLaunches(const char* reason) { refused = reason; }
RefusedLaunches::~RefusedLaunches() { refused = nullptr; }

LaunchError LaunchUpdate(void* stream, const UpdateKind& kind, const UpdateArguments& arguments) {
  const ScopedExactFloatMode mode;
  if (arguments.begin == arguments.end) return nullptr;
  if (LaunchError error = Launch()) return error;
  ForDeviceUpdateKind(kind, [&](auto weights, auto rule, auto moments) {
    uint32_t block = (arguments.end - arguments.begin + kUpdatePerBlock - 1) / kUpdatePerBlock;
    while (block-- > 0) {
      UpdateBlock<decltype(weights)::kValue, decltype(rule)::kValue, decltype(moments)::kValue>(
          arguments, block);
    }
  });
  return nullptr;
}

LaunchError LaunchRound(void* stream, DType dtype, const RoundArguments& arguments) {
  const ScopedExactFloatMode mode;
  if (arguments.total == 0) return nullptr;
  if (LaunchError error = Launch()) return error;
  for (uint64_t block = 0; block < RoundBlocks(arguments); ++block) {
    ForDType(dtype, [&](auto constant) { Round<decltype(constant)::kValue>(arguments, block); });
  }
  return nullptr;
}

LaunchError LaunchAccumulate(void* stream, DType dtype, bool first,
                             const AccumulateArguments& arguments) {
  const ScopedExactFloatMode mode;
  if (arguments.count == 0) return nullptr;
  if (LaunchError error = Launch()) return error;
  const uint64_t blocks = (arguments.count + kAccumulatePerBlock - 1) / kAccumulatePerBlock;
  ForDType(dtype, [&](auto constant) {
    constexpr DType kDType = decltype(constant)::kValue;
    ForEachThread(blocks, kAccumulateThreads, [&](uint64_t block, uint32_t thread) {
      if (first) {
        AccumulateThread<kDType, true>(arguments, block, thread);
      } else {
        AccumulateThread<kDType, false>(arguments, block, thread);
      }
    });
  });
  return nullptr;
}

// The steps of code_kernel.cu's kernel; where it has a barrier, all threads have come.
LaunchError LaunchCode(void* stream, const CodeArguments& arguments) {
  const ScopedExactFloatMode mode;
  if (arguments.count == 0) return nullptr;
  if (LaunchError error = Launch()) return error;
  for (uint64_t block = 0; block * kCodeThreads < arguments.count; ++block) {
    std::vector<CodeThread> threads;
    uint32_t largest = 0;
    for (uint32_t t = 0; t < kCodeThreads; ++t) threads.emplace_back(arguments, block, t);
    for (const CodeThread& thread : threads) largest = std::max(largest, thread.Magnitude());
    for (const CodeThread& thread : threads) thread.Store(largest);
  }
  return nullptr;
}

LaunchError LaunchAccumulateCoded(void* stream, bool first,
                                  const AccumulateCodedArguments& arguments) {
  const ScopedExactFloatMode mode;
  if (arguments.count == 0) return nullptr;
  if (LaunchError error = Launch()) return error;
  const uint64_t blocks = (arguments.count + kCodeThreads - 1) / kCodeThreads;
  ForEachThread(blocks, kCodeThreads, [&](uint64_t block, uint32_t thread) {
    if (first) {
      AccumulateCodedThread<true>(arguments, block, thread);
    } else {
      AccumulateCodedThread<false>(arguments, block, thread);
    }
  });
  return nullptr;
}

LaunchError LaunchDropout(void* stream, DType dtype, const DropoutArguments& arguments) {
  const ScopedExactFloatMode mode;
  if (arguments.count == 0) return nullptr;
  if (LaunchError error = Launch()) return error;
  ForDType(dtype, [&](auto constant) {
    constexpr DType kDType = decltype(constant)::kValue;
    ForEachThread(
        DropoutThreadBlocks(arguments), kDropoutThreads,
        [&](uint64_t block, uint32_t thread) { DropoutThread<kDType>(arguments, block, thread); });
  });
  return nullptr;
}

LaunchError LaunchZero(void* stream, void* data, uint64_t bytes) {
  if (refused != nullptr) return refused;
  ++Launches().memsets;
  std::memset(data, 0, bytes);
  return nullptr;
}

}  // namespace spillway
