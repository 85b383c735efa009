#include "engine/machine/bf16_products.h"

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace spillway {

bool Bf16ProductsAreLoops() {
#if defined(__x86_64__)
  // LibTorch hands bf16 products to oneDNN where these four are, and to its own loops elsewhere.
  return !(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
#else
  return false;
#endif
}

Bf16Products Bf16ProductsHere() {
#if defined(__x86_64__)
  if (Bf16ProductsAreLoops()) return Bf16Products::kInPlace;
  const char* value = std::getenv("ONEDNN_MAX_CPU_ISA");
  const absl::string_view most = value == nullptr ? "" : value;
  const bool held_back = absl::EqualsIgnoreCase(most, "AVX512_CORE") ||
                         absl::EqualsIgnoreCase(most, "AVX512_CORE_VNNI");
  if (held_back || !__builtin_cpu_supports("avx512bf16")) return Bf16Products::kThroughFp32;
#endif
  return Bf16Products::kInPlace;
}

}  // namespace spillway
