#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/layers/speech_embedding.h"
#include "engine/torch/model.h"

namespace spillway {
namespace {

using torch::Tensor;

UnitContext Context(int64_t step = 1, int unit = 3, std::vector<int64_t> samples = {0, 1},
                    bool training = true, uint64_t seed = 42) {
  return UnitContext(seed, step, unit, std::move(samples), training);
}

Tensor Mask(const UnitContext& context, int site = 0, double p = 0.5) {
  const int64_t samples = static_cast<int64_t>(context.samples().size());
  return context.Dropout(torch::ones({samples, 30, 100}), p, site).gt(0);
}

TEST(UnitDropout, DropsAtItsRateAndScalesWhatStays) {
  for (double p : {0.1, 0.5, 0.9}) {
    const Tensor out = Context().Dropout(torch::ones({2, 400, 100}), p, 0);
    const double kept = out.gt(0).to(torch::kFloat64).mean().item<double>();
    EXPECT_NEAR(kept, 1 - p, 5 * std::sqrt(p * (1 - p) / out.numel()));
    EXPECT_EQ(out.max().item<float>(), static_cast<float>(1 / (1 - p)));
  }
}

TEST(UnitDropout, MasksDifferByStepUnitSiteSampleAndSeed) {
  const Tensor base = Mask(Context());
  const auto agreement = [&](const Tensor& other) {
    return base.eq(other).to(torch::kFloat64).mean().item<double>();
  };
  // Independent fair coins agree half of the time.
  EXPECT_NEAR(agreement(Mask(Context(2))), 0.5, 0.04);
  EXPECT_NEAR(agreement(Mask(Context(1, 4))), 0.5, 0.04);
  EXPECT_NEAR(agreement(Mask(Context(), 1)), 0.5, 0.04);
  EXPECT_NEAR(agreement(Mask(Context(1, 3, {2, 3}))), 0.5, 0.04);
  EXPECT_NEAR(agreement(Mask(Context(1, 3, {0, 1}, true, 43))), 0.5, 0.04);
  EXPECT_NEAR(agreement(base.flip(0)), 0.5, 0.04);
  EXPECT_EQ(agreement(Mask(Context())), 1);
}

TEST(UnitDropout, AMaskBelongsToTheSampleNotToItsBatch) {
  const Tensor together = Mask(Context(1, 3, {5, 6, 7}));
  EXPECT_TRUE(together[1].equal(Mask(Context(1, 3, {6}))[0]));
  EXPECT_TRUE(together[0].equal(Mask(Context(1, 3, {9, 5}))[1]));
}

TEST(UnitDropout, GradientHasTheMaskOfForward) {
  for (torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
    // Not contiguous, and longer than one thread's range.
    const Tensor x =
        torch::randn({2, 300, 150}).to(dtype).transpose(1, 2).detach().requires_grad_();
    const Tensor out = Context().Dropout(x, 0.3, 5);
    EXPECT_EQ(out.scalar_type(), dtype);
    EXPECT_EQ(out.sizes(), x.sizes());
    out.backward(torch::ones_like(out));
    EXPECT_TRUE(x.grad().ne(0).logical_or(x.eq(0)).equal(out.ne(0).logical_or(x.eq(0))));
    const Tensor scale = torch::tensor(static_cast<float>(1 / (1 - 0.3)));
    EXPECT_TRUE(x.grad().max().equal(scale.to(dtype)));
    const Tensor scaled = (x.detach().to(torch::kFloat32) * scale).to(dtype);
    EXPECT_TRUE(out.detach().equal(scaled * out.ne(0)));
  }
}

TEST(UnitDropout, ThreadsAndMemoryLayoutChangeNoBit) {
  const Tensor x = torch::randn({2, 70, 900});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor one = Context().Dropout(x, 0.2, 0);
  at::set_num_threads(4);
  EXPECT_TRUE(one.equal(Context().Dropout(x, 0.2, 0)));
  EXPECT_TRUE(one.equal(Context().Dropout(x.transpose(1, 2).contiguous().transpose(1, 2), 0.2, 0)));
  at::set_num_threads(threads);
}

TEST(UnitDropout, IsTheIdentityInEvaluationAndAtZero) {
  const Tensor x = torch::randn({2, 8});
  EXPECT_TRUE(Context(1, 3, {0, 1}, /*training=*/false).Dropout(x, 0.5, 0).is_same(x));
  EXPECT_TRUE(Context().Dropout(x, 0, 0).is_same(x));
}

TEST(UnitDropout, RefusesWhatItCannotKey) {
  EXPECT_THAT(
      [] {
        Context().Dropout(torch::ones({3, 8}), 0.5, 0);
      },
      testing::ThrowsMessage<c10::Error>(testing::HasSubstr("2 samples")));
  EXPECT_ANY_THROW(Context().Dropout(torch::ones({2, 8}), 1, 0));
  EXPECT_ANY_THROW(Context().Dropout(torch::ones({2, 8}), -0.1, 0));
  EXPECT_ANY_THROW(Context().Dropout(torch::ones({2, 8}, torch::kInt64), 0.5, 0));
}

TEST(UnitDropout, AnEmptyTensorStaysEmpty) {
  EXPECT_EQ(Context().Dropout(torch::ones({2, 0}), 0.5, 0).numel(), 0);
}

// As transformers' _compute_mask_indices draws runs: so many as the share asks for, the last one by
// chance, each place as likely, none twice.
TEST(SpeechMask, RunsAreAsFrequentAsTransformersDrawsThem) {
  constexpr int64_t kSamples = 20'000, kBands = 3, kFrames = 24;
  std::vector<int64_t> samples(kSamples);
  std::iota(samples.begin(), samples.end(), 0);
  SpeechConfig config;
  config.bands = kBands;
  config.frames_mask = {.share = 0.3, .length = 5, .least = 0};  // 1.44 runs a sample
  const Tensor sound = torch::ones({kSamples, kBands, kFrames});
  const Tensor masked = MaskSpeech(Context(1, 0, samples), sound, config);
  EXPECT_TRUE(torch::equal(sound, torch::ones_like(sound)));  // the batch's stays as it is
  EXPECT_TRUE(torch::equal(masked.select(1, 0), masked.select(1, 2)));
  constexpr int kPlaces = 20;
  const Tensor silent = (masked.select(1, 0) == 0).to(torch::kFloat64).mean(0);
  for (int64_t frame = 0; frame < kFrames; ++frame) {
    const double runs = std::min<double>(frame, kPlaces - 1) - std::max<double>(0, frame - 4) + 1;
    const double by_one = 1 - runs / kPlaces;
    const double by_two = by_one * (kPlaces - 1 - runs) / (kPlaces - 1);
    const double expected = 1 - (0.56 * by_one + 0.44 * by_two);
    const double deviation = std::sqrt(expected * (1 - expected) / kSamples);
    EXPECT_NEAR(silent[frame].item<double>(), expected, 5 * deviation) << frame;
  }
  // At least so many, and no more than there is room for; whole bands as well.
  config.frames_mask = {.share = 0.01, .length = 5, .least = 2};
  config.bands_mask = {.share = 1, .length = 1, .least = 9};
  EXPECT_EQ(MaskSpeech(Context(1, 0, samples), sound, config).sum().item<double>(), 0);
  config.bands_mask = {};
  const Tensor two = (MaskSpeech(Context(1, 0, samples), sound, config).select(1, 0) == 0).sum(1);
  EXPECT_GE(two.min().item<int64_t>(), 6);
  EXPECT_LE(two.max().item<int64_t>(), 10);
  // In evaluation nothing is.
  EXPECT_TRUE(torch::equal(MaskSpeech(Context(1, 0, samples, false), sound, config), sound));
}

}  // namespace
}  // namespace spillway
