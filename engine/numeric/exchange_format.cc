#include "engine/numeric/exchange_format.h"

#include "engine/numeric/gradient_loops.h"
#include "engine/numeric/moment_code.h"
#include "io/base/check.h"
#include "io/base/enum_name.h"

namespace spillway {

static_assert(kExchangeBlock == kMomentBlock);

absl::string_view ExchangeFormatName(ExchangeFormat format) {
  return EnumName(format, {"fp32", "bf16", "fp8"});
}

uint64_t Float8ScalesOffset(uint64_t count) {
  return (count + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

uint64_t ExchangedBytes(ExchangeFormat format, uint64_t count) {
  switch (format) {
    case ExchangeFormat::kFloat32:
      return count * sizeof(float);
    case ExchangeFormat::kBFloat16:
      return count * sizeof(uint16_t);
    case ExchangeFormat::kFloat8:
      return Float8ScalesOffset(count) +
             (count + kExchangeBlock - 1) / kExchangeBlock * sizeof(float);
  }
  SPILLWAY_CHECK(false);
}

void EncodeSums(ExchangeFormat format, const float* sums, uint64_t count, char* out) {
  SPILLWAY_CHECK(format != ExchangeFormat::kFloat32);
  if (format == ExchangeFormat::kBFloat16) {
    RoundGradient(DType::kBFloat16, sums, out, count);
    return;
  }
  CodeGradient(sums, count, reinterpret_cast<uint8_t*>(out),
               reinterpret_cast<float*>(out + Float8ScalesOffset(count)));
}

void AddExchanged(ExchangeFormat format, const char* in, uint64_t count, float* sums, bool first) {
  if (format == ExchangeFormat::kFloat8) {
    return AccumulateCoded(reinterpret_cast<const uint8_t*>(in),
                           reinterpret_cast<const float*>(in + Float8ScalesOffset(count)), count,
                           sums, first);
  }
  AccumulateGradient(format == ExchangeFormat::kBFloat16 ? DType::kBFloat16 : DType::kFloat32, in,
                     count, sums, first);
}

}  // namespace spillway
