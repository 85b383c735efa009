// Whether a sanitizer looks on, under which everything takes many times as long.
#pragma once

namespace spillway {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

// Of random values' rounds, which show in release what they show: a tenth under a sanitizer.
constexpr int Rounds(int rounds) {
  return kAddressSanitizer || kThreadSanitizer ? (rounds + 9) / 10 : rounds;
}

}  // namespace spillway
