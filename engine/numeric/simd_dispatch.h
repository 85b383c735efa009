// Selects the instruction set of our loops at run time.
//
// A loop is a struct with a static always-inline Run; RunOnBestSimdTarget<Loop>(...)
// compiles it once per target and calls the best the processor has. Every loop is a
// fixed sequence of correctly rounded operations, so all targets give the same bits,
// and tests hold them to it. Files with such loops are compiled with -O3 -ffp-contract=off
// -fno-math-errno -fno-trapping-math: the first keeps them exact, the others only let
// them vectorise. (No ifunc or target_clones: sanitizers can't run them.)
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace spillway {

enum class SimdTarget : uint8_t { kBaseline, kAvx2, kAvx512 };

// "baseline", "avx2", "avx512".
absl::string_view SimdTargetName(SimdTarget target);

bool SimdTargetSupported(SimdTarget target);

// The best supported target, unless a test set another.
SimdTarget ActiveSimdTarget();

// Any thread, but not while loops run. REQUIRES: the target is supported.
void SetSimdTargetForTest(SimdTarget target);
void ResetSimdTargetForTest();

// Within its scope, this thread rounds to nearest and keeps subnormals, whatever a library set
// before; then the thread's previous mode is restored.
class ScopedExactFloatMode {
 public:
  ScopedExactFloatMode();
  ~ScopedExactFloatMode();
  ScopedExactFloatMode(const ScopedExactFloatMode&) = delete;
  ScopedExactFloatMode& operator=(const ScopedExactFloatMode&) = delete;

 private:
  uint32_t saved_ = 0;
};

#if defined(__x86_64__)

template <typename Loop, typename... Args>
__attribute__((noinline, target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512"))) auto
RunOnAvx512(Args... args) {
  return Loop::Run(args...);
}

template <typename Loop, typename... Args>
__attribute__((noinline, target("avx2"))) auto RunOnAvx2(Args... args) {
  return Loop::Run(args...);
}

#endif

template <typename Loop, typename... Args>
__attribute__((noinline)) auto RunOnBaseline(Args... args) {
  return Loop::Run(args...);
}

template <typename Loop, typename... Args>
auto RunOnBestSimdTarget(Args... args) {
#if defined(__x86_64__)
  switch (ActiveSimdTarget()) {
    case SimdTarget::kAvx512:
      return RunOnAvx512<Loop>(args...);
    case SimdTarget::kAvx2:
      return RunOnAvx2<Loop>(args...);
    case SimdTarget::kBaseline:
      break;
  }
#endif
  return RunOnBaseline<Loop>(args...);
}

}  // namespace spillway
