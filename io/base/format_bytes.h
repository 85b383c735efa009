// Sizes in bytes as text for people.
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// "512 MiB", "1.5 GiB", "5000 B": at most two decimals, exact below 10,000 bytes.
std::string FormatBytes(uint64_t size_bytes);

// The size in whole MiB, rounded up ("1537 MiB"): as the value of a flag, it is certainly enough
// for `size_bytes`.
std::string FormatBytesForFlag(uint64_t size_bytes);

}  // namespace spillway
