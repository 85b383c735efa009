// For tests that hold every SIMD target of this processor to the same bits.
#pragma once

#include <functional>

#include "engine/numeric/simd_dispatch.h"

namespace spillway {

// Calls test(target) with each supported target active; then the choice is free again.
inline void ForEachSimdTarget(const std::function<void(SimdTarget)>& test) {
  for (SimdTarget target : {SimdTarget::kBaseline, SimdTarget::kAvx2, SimdTarget::kAvx512}) {
    if (SimdTargetSupported(target)) {
      SetSimdTargetForTest(target);
      test(target);
    }
  }
  ResetSimdTargetForTest();
}

}  // namespace spillway
