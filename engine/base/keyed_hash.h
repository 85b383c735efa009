// SHA-256 (FIPS 180-4) and the keyed hash HMAC-SHA-256 (RFC 2104), by which one process proves to
// another that it knows a secret without sending it. Any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

inline constexpr size_t kDigestBytes = 32;

// The digest, kDigestBytes bytes.
std::string Sha256(absl::string_view text);
std::string HmacSha256(absl::string_view key, absl::string_view text);

// Whether both are equal, in a time that depends on their sizes alone: it does not tell an attacker
// how many leading bytes of a guess are right.
bool SameSecretBytes(absl::string_view one, absl::string_view other);

// Unpredictable bytes from the kernel's generator.
std::string UnforeseeableBytes(size_t count);

}  // namespace spillway
