// How sizes are written for people.
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// "512 MiB", "1.5 GiB", "5000 B": at most two decimals, exact below 10,000 bytes.
std::string FormatBytes(uint64_t size_bytes);

// The same amount in whole MiB, rounded up: what to write behind a flag so that
// `size_bytes` certainly fit. "1537 MiB".
std::string FormatBytesForFlag(uint64_t size_bytes);

}  // namespace spillway
