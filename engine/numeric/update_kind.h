// The template arguments of a tile's update, and the dispatch to the code compiled for them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "engine/numeric/number_formats.h"

namespace spillway {

enum class UpdateRule : uint8_t {
  kAdamW,
  kAdam,
  kSgd,
  kSgdMomentum,
  kSgdNesterov,
  kLion,
  kLamb,
  kAdafactor
};

SPILLWAY_ALWAYS_INLINE constexpr bool HasMoment1(UpdateRule rule) {
  return rule != UpdateRule::kSgd && rule != UpdateRule::kAdafactor;
}
SPILLWAY_ALWAYS_INLINE constexpr bool HasMoment2(UpdateRule rule) {
  return rule == UpdateRule::kAdamW || rule == UpdateRule::kAdam || rule == UpdateRule::kLamb;
}

// The format of a weight and its fp32 master.
enum class WeightFormat : uint8_t {
  kFloat32,        // the weight is the master
  kBFloat16,       // with a residual (split_master.h)
  kBFloat16Byte,   // with a residual of 8 bits: a 24-bit master, rounded stochastically
  kFloat16,        // with the master
  kBFloat16Alone,  // no master; the weight is rounded stochastically
};

SPILLWAY_ALWAYS_INLINE constexpr DType DTypeOf(WeightFormat format) {
  return format == WeightFormat::kFloat32   ? DType::kFloat32
         : format == WeightFormat::kFloat16 ? DType::kFloat16
                                            : DType::kBFloat16;
}

// The plane that completes a bf16 weight to its master.
template <WeightFormat kFormat>
using ResidualOf = std::conditional_t<kFormat == WeightFormat::kBFloat16Byte, uint8_t, uint16_t>;

SPILLWAY_ALWAYS_INLINE constexpr bool HasResidual(WeightFormat format) {
  return format == WeightFormat::kBFloat16 || format == WeightFormat::kBFloat16Byte;
}

// Whether moments are codes with a scale per block (coded_moments.h).
SPILLWAY_ALWAYS_INLINE constexpr bool IsCoded(MomentFormat moments) {
  return moments == MomentFormat::kEightBit || moments == MomentFormat::kFloat8;
}

struct UpdateKind {
  WeightFormat weights = WeightFormat::kFloat32;
  UpdateRule rule = UpdateRule::kAdamW;
  MomentFormat moments = MomentFormat::kFloat32;
};

// A value as a template argument: decltype(x)::kValue.
template <auto kConstant>
struct Constant {
  static constexpr auto kValue = kConstant;
};

namespace internal {

// Calls run(Constant<value>()) if the value is listed.
template <auto kFirst, auto... kRest, typename Run>
auto ForValue(decltype(kFirst) value, Run run) {
  if constexpr (sizeof...(kRest) > 0) {
    if (value != kFirst) return ForValue<kRest...>(value, run);
  }
  return run(Constant<kFirst>());
}

}  // namespace internal

// Calls run(Constant<dtype>()), run(Constant<weights>()).
template <typename Run>
auto ForDType(DType dtype, Run run) {
  return internal::ForValue<DType::kFloat32, DType::kBFloat16, DType::kFloat16>(dtype, run);
}
template <typename Run>
auto ForWeightFormat(WeightFormat weights, Run run) {
  using W = WeightFormat;
  return internal::ForValue<W::kFloat32, W::kBFloat16, W::kBFloat16Byte, W::kFloat16,
                            W::kBFloat16Alone>(weights, run);
}

namespace internal {

// Calls run(Constant<weights>(), Constant<rule>(), Constant<moments>()) for the listed rules. A
// rule without moments has them in fp32.
template <UpdateRule... kRules, typename Run>
auto ForUpdateKindOf(const UpdateKind& kind, Run run) {
  using M = MomentFormat;
  return ForWeightFormat(kind.weights, [&](auto weights) {
    return ForValue<kRules...>(kind.rule, [&](auto rule) {
      if constexpr (!HasMoment1(decltype(rule)::kValue)) {
        return run(weights, rule, Constant<M::kFloat32>());
      } else {
        return ForValue<M::kFloat32, M::kBFloat16, M::kEightBit, M::kFloat8>(
            kind.moments, [&](auto moments) { return run(weights, rule, moments); });
      }
    });
  });
}

}  // namespace internal

// ForUpdateKindOf with all rules, and with those that have kernels.
template <typename Run>
auto ForUpdateKind(const UpdateKind& kind, Run run) {
  using R = UpdateRule;
  return internal::ForUpdateKindOf<R::kAdamW, R::kAdam, R::kSgd, R::kSgdMomentum, R::kSgdNesterov,
                                   R::kLion, R::kLamb, R::kAdafactor>(kind, run);
}
template <typename Run>
auto ForDeviceUpdateKind(const UpdateKind& kind, Run run) {
  using R = UpdateRule;
  return internal::ForUpdateKindOf<R::kAdamW, R::kAdam, R::kSgd, R::kSgdMomentum, R::kSgdNesterov,
                                   R::kLion>(kind, run);
}

}  // namespace spillway
