#include "engine/data/token_masking.h"

#include <cmath>

#include "gtest/gtest.h"

namespace spillway {
namespace {

constexpr int64_t kMask = 4, kWords = 1000;

MaskingRule Rule(double probability = kMaskProbability, uint64_t seed = 42) {
  return {.probability = probability, .seed = seed, .mask_token = kMask, .tokens = kWords};
}

struct MaskedRow {
  std::vector<int64_t> tokens, chosen;
  friend bool operator==(const MaskedRow&, const MaskedRow&) = default;
};

// Of tokens that are all kWords, which no draw gives.
MaskedRow Mask(const MaskingRule& rule, int64_t number, size_t length = 128,
               MaskingUse use = MaskingUse::kTraining) {
  MaskedRow row{std::vector<int64_t>(length, kWords), {}};
  row.chosen =
      MaskTokens(rule, use, number, std::vector<bool>(length, true), absl::MakeSpan(row.tokens));
  return row;
}

TEST(TokenMasking, OfThoseChosenEightOfTenAreMaskedAndOneIsDrawn) {
  const double all = 2000 * 128;
  double chosen = 0, masked = 0, kept = 0, drawn_sum = 0, drawn = 0;
  for (int64_t number = 0; number < 2000; ++number) {
    const MaskedRow row = Mask(Rule(), number);
    chosen += static_cast<double>(row.chosen.size());
    size_t next = 0;
    for (size_t i = 0; i < row.tokens.size(); ++i) {
      const bool is_chosen =
          next < row.chosen.size() && row.chosen[next] == static_cast<int64_t>(i);
      next += is_chosen;
      if (!is_chosen) {
        ASSERT_EQ(row.tokens[i], kWords);
        continue;
      }
      if (row.tokens[i] == kMask) {
        masked += 1;
      } else if (row.tokens[i] == kWords) {
        kept += 1;
      } else {
        ASSERT_LT(row.tokens[i], kWords);
        drawn += 1;
        drawn_sum += static_cast<double>(row.tokens[i]);
      }
    }
    ASSERT_EQ(next, row.chosen.size());
  }
  // Within five standard deviations.
  const auto expect_near = [](double count, double of, double p) {
    EXPECT_NEAR(count, of * p, 5 * std::sqrt(of * p * (1 - p)));
  };
  expect_near(chosen, all, 0.15);
  expect_near(masked, chosen, 0.8 + 0.1 / kWords);
  expect_near(kept, chosen, 0.1);
  EXPECT_NEAR(drawn_sum / drawn, kWords / 2.0, 5 * kWords / std::sqrt(12 * drawn));
}

TEST(TokenMasking, IsAFunctionOfSeedUseNumberAndPlace) {
  EXPECT_EQ(Mask(Rule(), 7), Mask(Rule(), 7));
  EXPECT_NE(Mask(Rule(), 7).chosen, Mask(Rule(), 8).chosen);
  EXPECT_NE(Mask(Rule(), 7).chosen, Mask(Rule(kMaskProbability, 43), 7).chosen);
  EXPECT_NE(Mask(Rule(), 7).chosen, Mask(Rule(), 7, 128, MaskingUse::kEvaluation).chosen);
  // What is behind a token does not matter.
  const MaskedRow whole = Mask(Rule(), 7), part = Mask(Rule(), 7, 40);
  EXPECT_TRUE(std::equal(part.tokens.begin(), part.tokens.end(), whole.tokens.begin()));
}

TEST(TokenMasking, OnlyWhatMayBeChosenIs) {
  std::vector<int64_t> tokens(100, 1);
  std::vector<bool> may(100, false);
  EXPECT_TRUE(
      MaskTokens(Rule(1 - 1e-12), MaskingUse::kTraining, 0, may, absl::MakeSpan(tokens)).empty());
  EXPECT_EQ(tokens, std::vector<int64_t>(100, 1));
  may[3] = may[50] = true;
  EXPECT_EQ(MaskTokens(Rule(1 - 1e-12), MaskingUse::kTraining, 0, may, absl::MakeSpan(tokens)),
            (std::vector<int64_t>{3, 50}));
}

TEST(TokenMasking, MemoryIsPlannedForMoreThanIsEverChosen) {
  EXPECT_EQ(MostMasked(20, 0.15), 20);
  EXPECT_LT(MostMasked(8192, 0.15), 8192 / 5);
  for (int64_t number = 0; number < 500; ++number) {
    ASSERT_LE(static_cast<int64_t>(Mask(Rule(), number, 512).chosen.size()), MostMasked(512, 0.15));
  }
}

}  // namespace
}  // namespace spillway
