#include "engine/numeric/simd_dispatch.h"

#include <atomic>

#include "io/base/check.h"
#include "io/base/enum_name.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace spillway {
namespace {

constexpr int kNotChosen = -1;
std::atomic<int> chosen_for_test{kNotChosen};

SimdTarget BestSupported() {
  for (SimdTarget target : {SimdTarget::kAvx512, SimdTarget::kAvx2}) {
    if (SimdTargetSupported(target)) {
      return target;
    }
  }
  return SimdTarget::kBaseline;
}

}  // namespace

absl::string_view SimdTargetName(SimdTarget target) {
  return EnumName(target, {"baseline", "avx2", "avx512"});
}

bool SimdTargetSupported(SimdTarget target) {
#if defined(__x86_64__)
  switch (target) {
    case SimdTarget::kBaseline:
      return true;
    case SimdTarget::kAvx2:
      return __builtin_cpu_supports("avx2");
    case SimdTarget::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  }
#endif
  return target == SimdTarget::kBaseline;
}

SimdTarget ActiveSimdTarget() {
  static const SimdTarget best = BestSupported();
  const int chosen = chosen_for_test.load(std::memory_order_relaxed);
  return chosen == kNotChosen ? best : static_cast<SimdTarget>(chosen);
}

void SetSimdTargetForTest(SimdTarget target) {
  SPILLWAY_CHECK(SimdTargetSupported(target));
  chosen_for_test.store(static_cast<int>(target), std::memory_order_relaxed);
}

void ResetSimdTargetForTest() { chosen_for_test.store(kNotChosen, std::memory_order_relaxed); }

#if defined(__x86_64__)

// All exceptions masked, round to nearest, no flush-to-zero, no denormals-are-zero.
constexpr uint32_t kExactMxcsr = 0x1f80;

ScopedExactFloatMode::ScopedExactFloatMode() : saved_(_mm_getcsr()) { _mm_setcsr(kExactMxcsr); }
ScopedExactFloatMode::~ScopedExactFloatMode() { _mm_setcsr(saved_); }

#else

ScopedExactFloatMode::ScopedExactFloatMode() = default;
ScopedExactFloatMode::~ScopedExactFloatMode() = default;

#endif

}  // namespace spillway
