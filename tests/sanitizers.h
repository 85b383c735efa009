// Whether a sanitizer looks on, under which everything takes many times as long.
#pragma once

namespace spillway {

#if defined(__SANITIZE_ADDRESS__)
#define SPILLWAY_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPILLWAY_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef SPILLWAY_ADDRESS_SANITIZER
#define SPILLWAY_ADDRESS_SANITIZER 0
#endif
inline constexpr bool kAddressSanitizer = SPILLWAY_ADDRESS_SANITIZER != 0;

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
