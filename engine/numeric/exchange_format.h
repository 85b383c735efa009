// In what ranks send one another the sums of their gradients. They add what comes in fp32, in rank
// order, whatever it came in.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace spillway {

enum class ExchangeFormat : uint8_t {
  kFloat32,
  kBFloat16,  // each sum rounded
  // E4M3, a sum being a multiple of the largest magnitude of its block of kMomentBlock, as first
  // moments in fp8 are (engine/numeric/coded_moments.h). A block in which something is not finite
  // has nothing finite when it is added.
  kFloat8,
};

// "fp32", "bf16", "fp8".
absl::string_view ExchangeFormatName(ExchangeFormat format);

// Blocks are counted from the first of what is sent at once: where it is cut, multiples of this
// change no bit.
inline constexpr uint64_t kExchangeBlock = 256;  // kMomentBlock

// What `count` sums take: of kFloat8 the codes, and behind them, 4-byte aligned, the scales.
uint64_t ExchangedBytes(ExchangeFormat format, uint64_t count);
// Where those scales begin.
uint64_t Float8ScalesOffset(uint64_t count);

// REQUIRES: not kFloat32, of which sums are sent as they are. `out`: ExchangedBytes, 4-byte
// aligned.
void EncodeSums(ExchangeFormat format, const float* sums, uint64_t count, char* out);

// sums = what `in` means when `first`, else sums + that.
void AddExchanged(ExchangeFormat format, const char* in, uint64_t count, float* sums, bool first);

}  // namespace spillway
