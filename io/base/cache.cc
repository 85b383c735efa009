#include "io/base/cache.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace spillway {
namespace {

constexpr uint64_t kLineBytes = 64;

#if defined(__x86_64__)

bool HasClflushopt() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_CLFLUSHOPT) != 0;
}

__attribute__((target("clflushopt"))) void EvictLines(char* line, const char* end) {
  static const bool offered = HasClflushopt();
  if (!offered) return;
  for (; line < end; line += kLineBytes) __builtin_ia32_clflushopt(line);
  __builtin_ia32_mfence();
}

#elif defined(__aarch64__)

void EvictLines(char* line, const char* end) {
  for (; line < end; line += kLineBytes) asm volatile("dc civac, %0" : : "r"(line) : "memory");
  asm volatile("dsb ish" : : : "memory");
}

#else

void EvictLines(char*, const char*) {}

#endif

}  // namespace

void EvictFromCaches(const void* data, uint64_t bytes) {
  char* const begin = const_cast<char*>(static_cast<const char*>(data));
  EvictLines(begin - reinterpret_cast<uintptr_t>(begin) % kLineBytes, begin + bytes);
}

}  // namespace spillway
