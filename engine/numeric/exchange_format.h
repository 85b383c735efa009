// The formats in which ranks exchange sums of gradients. Received sums are added in fp32 in rank
// order.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace spillway {

enum class ExchangeFormat : uint8_t {
  kFloat32,
  kBFloat16,  // each sum rounded
  // E4M3 multiples of the largest magnitude in each block of kMomentBlock sums, like first moments
  // in fp8 (engine/numeric/coded_moments.h). A block with a value that is not finite decodes to
  // values that are not finite.
  kFloat8,
};

// "fp32", "bf16", "fp8".
absl::string_view ExchangeFormatName(ExchangeFormat format);

// Blocks are counted from the first sum of a message: cuts at multiples of this change no bit.
inline constexpr uint64_t kExchangeBlock = 256;  // kMomentBlock

// Bytes of `count` sums; for kFloat8 the codes and then the 4-byte aligned scales.
uint64_t ExchangedBytes(ExchangeFormat format, uint64_t count);
// Offset of these scales.
uint64_t Float8ScalesOffset(uint64_t count);

// REQUIRES: not kFloat32, whose sums are sent as they are. `out`: ExchangedBytes, 4-byte aligned.
void EncodeSums(ExchangeFormat format, const float* sums, uint64_t count, char* out);

// sums = the decoded `in` if `first`, else sums + that.
void AddExchanged(ExchangeFormat format, const char* in, uint64_t count, float* sums, bool first);

}  // namespace spillway
