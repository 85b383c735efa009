#include "engine/numeric/tensor_ratios.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/numeric/measured_unit.h"

namespace spillway {
namespace {

constexpr uint64_t kStep = kParameterAlignment;

// Tensors of one unit: some within a block, one over many, a gap, one of a single parameter.
const std::vector<ParameterRange> kTensors = {
    {0, 300}, {300, 3 * kStep + 17}, {3 * kStep + 32, 3 * kStep + 33}, {3 * kStep + 64, 5 * kStep}};
const std::vector<FactoredTensor> kRows = {{0, 1, 300},
                                           {300, 1, 3 * kStep - 283},
                                           {3 * kStep + 32, 1, 1},
                                           {3 * kStep + 64, 1, 2 * kStep - 64}};
constexpr uint64_t kRatioParameters = 5 * kStep;

OptimizerSpec Lamb() {
  OptimizerSpec spec;
  spec.kind = OptimizerSpec::Kind::kLamb;
  spec.learning_rate = 0.01;
  spec.weight_decay = 0.1;
  return spec;
}

float WeightOf(uint64_t i) { return 0.02f * static_cast<float>(std::sin(0.37 * double(i))); }
float GradientOf(uint64_t i, int64_t step) {
  return 0.001f * static_cast<float>(std::cos(0.11 * double(i) + double(step)));
}

// The paper's formulas as DeepSpeed's FusedLamb has them, tensor by tensor, in double.
std::vector<double> Reference(const OptimizerSpec& spec, int steps) {
  std::vector<double> p(kRatioParameters), m(kRatioParameters), v(kRatioParameters),
      u(kRatioParameters);
  for (uint64_t i = 0; i < kRatioParameters; ++i) p[i] = WeightOf(i);
  for (int step = 1; step <= steps; ++step) {
    const double correction1 = spec.bias_correction ? 1 - std::pow(spec.beta1, step) : 1;
    const double correction2 = spec.bias_correction ? 1 - std::pow(spec.beta2, step) : 1;
    const double step_size = spec.learning_rate * std::sqrt(correction2) / correction1;
    for (const ParameterRange& tensor : kTensors) {
      double weights = 0, directions = 0;
      for (uint64_t i = tensor.begin; i < tensor.end; ++i) {
        const double g = GradientOf(i, step);
        m[i] = spec.beta1 * m[i] + (1 - spec.beta1) * g;
        v[i] = spec.beta2 * v[i] + (1 - spec.beta2) * g * g;
        u[i] = m[i] / (std::sqrt(v[i]) + spec.eps);
        weights += p[i] * p[i];
        directions += u[i] * u[i];
      }
      const double ratio = std::clamp(std::sqrt(weights / directions), spec.least_trust_ratio,
                                      spec.most_trust_ratio);
      for (uint64_t i = tensor.begin; i < tensor.end; ++i) p[i] -= step_size * ratio * u[i];
    }
  }
  return p;
}

TEST(TensorRatios, AnUpdateIsDeepSpeedsLambOfEveryTensor) {
  for (const bool corrects : {true, false}) {
    for (const double least : {1e-4, 0.5}) {
      OptimizerSpec spec = Lamb();
      spec.weight_decay = 0;  // no tensor decays in these units
      spec.bias_correction = corrects;
      spec.least_trust_ratio = least;
      MeasuredUnit unit(spec, DType::kFloat32, kRows,
                        {.parameters = kRatioParameters, .tile = kStep});
      for (uint64_t i = 0; i < kRatioParameters; ++i) unit.Set(i, WeightOf(i), 0);
      for (int64_t step = 1; step <= 4; ++step) {
        for (uint64_t i = 0; i < kRatioParameters; ++i) {
          unit.Set(i, unit.Master(i), GradientOf(i, step));
        }
        UpdateScalars scalars;
        scalars.step = step;
        scalars.learning_rate = spec.learning_rate;
        unit.Measure(scalars, 0);
        unit.ratios().Use(unit.ratios().TakeSums());
        unit.Update(scalars);
      }
      const std::vector<double> expected = Reference(spec, 4);
      for (const ParameterRange& tensor : kTensors) {
        for (uint64_t i = tensor.begin; i < tensor.end; ++i) {
          ASSERT_NEAR(unit.Master(i), expected[i], 2e-6 * (1 + std::abs(expected[i]))) << i;
        }
      }
      for (uint64_t i = 3 * kStep + 17; i < 3 * kStep + 32; ++i) {
        EXPECT_EQ(unit.Master(i), WeightOf(i)) << "between tensors nothing is updated";
      }
    }
  }
}

// In one piece, in tiles that come in any order, and over ranks' shards: the same bits.
TEST(TensorRatios, TheSumsAreTheSameHoweverTheUnitIsCut) {
  for (const MomentFormat moments : {MomentFormat::kFloat32, MomentFormat::kEightBit}) {
    OptimizerSpec spec = Lamb();
    spec.moments = moments;
    UpdateScalars scalars;
    scalars.step = 3;
    scalars.learning_rate = spec.learning_rate;
    scalars.gradient_scale = 0.25;
    // Padded so that each of five ranks has a portion.
    const auto fill = [&](MeasuredUnit& unit, uint64_t count) {
      for (uint64_t i = 0; i < count; ++i) {
        unit.Set(i, WeightOf(unit.begin() + i), GradientOf(unit.begin() + i, 1));
      }
    };
    std::vector<double> expected;
    for (const uint64_t tile : {kStep, 2 * kStep, 8 * kStep}) {
      for (const bool backwards : {false, true}) {
        MeasuredUnit whole(spec, DType::kBFloat16, kRows,
                           {.parameters = kRatioParameters, .tile = tile, .portions = 5});
        fill(whole, kRatioParameters);
        whole.Measure(scalars, 0, backwards);
        const std::vector<double> sums = whole.ratios().TakeSums();
        if (expected.empty()) expected = sums;
        EXPECT_EQ(sums, expected) << tile;
      }
    }
    std::vector<double> gathered;
    for (int rank = 0; rank < 5; ++rank) {
      MeasuredUnit shard(spec, DType::kBFloat16, kRows,
                         {.begin = rank * kStep, .parameters = kStep, .tile = kStep});
      fill(shard, kStep);
      shard.Measure(scalars, 0);
      const std::vector<double> own = shard.ratios().TakeSums();
      gathered.insert(gathered.end(), own.begin(), own.end());
    }
    EXPECT_EQ(gathered, expected);
  }
}

TEST(TensorRatios, ARatioIsBoundedAndOneWhereNothingIs) {
  OptimizerSpec spec = Lamb();
  spec.least_trust_ratio = 0.1;
  spec.most_trust_ratio = 5;
  TensorRatios ratios({{.tensors = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}},
                        .parameters = {1, 1, 1, 1, 1},
                        .tiles = 1}},
                      1, TensorRatioOf(spec));
  EXPECT_EQ(ratios.ratio(0, 0), 1);
  const double nan = std::nan("");
  ratios.Use({4, 1, /**/ 0, 1, /**/ 1, 0, /**/ 1e6, 1e-6, /**/ nan, 1});
  EXPECT_EQ(ratios.ratio(0, 0), 2);
  EXPECT_EQ(ratios.ratio(0, 1), 1);
  EXPECT_EQ(ratios.ratio(0, 2), 1);
  EXPECT_EQ(ratios.ratio(0, 3), 5);
  EXPECT_EQ(ratios.ratio(0, 4), 1);
  ratios.Use({1, 1e6, 1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_EQ(ratios.ratio(0, 0), 0.1);
}

TEST(SecondMoments, MoveAsOneBitAndZeroOneAdamHaveThem) {
  OptimizerSpec::SecondMoments always;
  EXPECT_TRUE(always.MoveIn(1) && always.MoveIn(1000000));
  const OptimizerSpec::SecondMoments one_bit = {.last_step = 3, .moves_per_doubling = 0};
  EXPECT_TRUE(one_bit.MoveIn(3));
  EXPECT_FALSE(one_bit.MoveIn(4));
  for (const int64_t scaler : {1, 2, 3, 16}) {
    const OptimizerSpec::SecondMoments zero_one = {.last_step = 900, .moves_per_doubling = scaler};
    // zoadam.py's counters.
    int64_t interval = 1, counter = 0;
    for (int64_t step = 1; step <= 1000; ++step) {
      EXPECT_EQ(zero_one.MoveIn(step), step % interval == 0 && step <= 900)
          << scaler << " " << step;
      if (step % interval != 0) continue;
      if (++counter == scaler) counter = 0, interval *= 2;
    }
  }
}

}  // namespace
}  // namespace spillway
