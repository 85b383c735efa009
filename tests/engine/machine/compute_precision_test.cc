#include "engine/machine/compute_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using testing::HasSubstr;

constexpr DType kBf16 = DType::kBFloat16, kFp16 = DType::kFloat16, kFp32 = DType::kFloat32;
constexpr NativeProducts kAll = {true, true, true}, kNone = {};

TEST(ComputePrecision, AutoIsTheDtypeWhereItIsNativeAndOtherwiseFp32) {
  for (const DType dtype : {kBf16, kFp16, kFp32}) {
    EXPECT_EQ(ChooseCompute(std::nullopt, dtype, false, kAll), dtype);
    EXPECT_EQ(ChooseCompute(std::nullopt, dtype, false, kNone), kFp32);
    EXPECT_EQ(ChooseCompute(std::nullopt, dtype, /*on_gpu=*/true, kNone), dtype);
    for (const DType asked : {dtype, kFp32}) {
      EXPECT_EQ(ChooseCompute(asked, dtype, false, kNone), asked);
      EXPECT_EQ(CheckCompute(asked, dtype), absl::OkStatus());
    }
  }
  const NativeProducts one = {.bf16 = true, .fp16 = false, .avx512 = true};
  EXPECT_EQ(ChooseCompute(std::nullopt, kBf16, false, one), kBf16);
  EXPECT_EQ(ChooseCompute(std::nullopt, kFp16, false, one), kFp32);
}

TEST(ComputePrecision, ANameTellsWhatElseIsMultipliedIn) {
  EXPECT_EQ(ComputeName(kFp32, kBf16, false), "fp32");
  EXPECT_EQ(ComputeName(kBf16, kBf16, true), "fp8");
  EXPECT_EQ(ComputeName(kFp32, kBf16, true), "fp8, else fp32");
}

TEST(ComputePrecision, LessThanTheDtypeIsRefused) {
  EXPECT_THAT(std::string(CheckCompute(kBf16, kFp32).message()),
              HasSubstr("--compute bf16 is not as precise as --dtype fp32: give --dtype bf16"));
  EXPECT_FALSE(CheckCompute(kBf16, kFp16).ok());
  EXPECT_FALSE(CheckCompute(kFp16, kBf16).ok());
  EXPECT_EQ(CheckCompute(std::nullopt, kFp32), absl::OkStatus());
}

TEST(ComputePrecision, WhatOneDnnIsToldNotToUseIsNotThere) {
  struct Case {
    const char* most;
    bool bf16, fp16, avx512;
  };
  for (const Case& c : {Case{"", true, true, true},
                        {"ALL", true, true, true},
                        {"avx512_core_amx", true, true, true},
                        {"AVX512_CORE_BF16", true, false, true},
                        {"avx512_core_vnni", false, false, true},
                        {"AVX512_CORE", false, false, true},
                        {"AVX2_VNNI_2", false, false, false},
                        {"AVX2", false, false, false}}) {
    const NativeProducts left = HeldBack(kAll, c.most);
    EXPECT_EQ(left.bf16, c.bf16) << c.most;
    EXPECT_EQ(left.fp16, c.fp16) << c.most;
    EXPECT_EQ(left.avx512, c.avx512) << c.most;
    EXPECT_FALSE(HeldBack(kNone, c.most).bf16) << c.most;
  }
  // Without AVX-512 this is where conversions come in.
  const NativeProducts converts = {.bf16 = true, .fp16 = true, .avx512 = false};
  EXPECT_TRUE(HeldBack(converts, "AVX2_VNNI_2").bf16);
  EXPECT_FALSE(HeldBack(converts, "AVX2_VNNI").bf16);
}

TEST(ComputePrecision, WhatIsNotTheDtypeOrSlowIsExplained) {
  EXPECT_EQ(ComputeRemark(kBf16, kBf16, false, kAll), "");
  EXPECT_EQ(ComputeRemark(kBf16, kBf16, /*on_gpu=*/true, kNone), "");
  EXPECT_EQ(ComputeRemark(kFp32, kFp32, false, kNone), "");
  EXPECT_EQ(ComputeRemark(kFp32, kBf16, false, kNone), "this processor has no bf16 instructions");
  EXPECT_THAT(ComputeRemark(kBf16, kBf16, false, {.avx512 = true}), HasSubstr("five times slower"));
  EXPECT_THAT(ComputeRemark(kBf16, kBf16, false, kNone), HasSubstr("ten to eighty times slower"));
  EXPECT_THAT(ComputeRemark(kFp16, kFp16, false, {.avx512 = true}), HasSubstr("ten to eighty"));
}

}  // namespace
}  // namespace spillway
