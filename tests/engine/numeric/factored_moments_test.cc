#include "engine/numeric/factored_moments.h"

#include <cmath>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/engine/numeric/measured_unit.h"
#include "tests/engine/numeric/simd_targets.h"

namespace spillway {
namespace {

OptimizerSpec Adafactor() {
  OptimizerSpec spec;
  spec.kind = OptimizerSpec::Kind::kAdafactor;
  spec.eps = 1e-30;
  spec.learning_rate = 0.01;
  spec.weight_decay = 0.1;
  return spec;
}

// What a step does on one rank, and on several with all their numbers at hand.
// Returns all sums of squares.
std::vector<double> MeasureTogether(const std::vector<MeasuredUnit*>& shards,
                                    const UpdateScalars& scalars, double sum_of_squares,
                                    bool backwards = false) {
  for (MeasuredUnit* shard : shards) {
    shard->moments().Begin(sum_of_squares);
    shard->Measure(scalars, 0, backwards);
  }
  std::vector<double> sums(shards[0]->moments().sums().size(), 0);
  for (MeasuredUnit* shard : shards) {
    const absl::Span<double> own = shard->moments().sums();
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
  }
  std::vector<double> squares;
  for (MeasuredUnit* shard : shards) {
    std::copy(sums.begin(), sums.end(), shard->moments().sums().begin());
    shard->moments().Take(scalars);
    shard->Measure(scalars, 1, backwards);
    const std::vector<double> own = shard->ratios().TakeSums();
    squares.insert(squares.end(), own.begin(), own.end());
  }
  for (MeasuredUnit* shard : shards) shard->ratios().Use(squares);
  sums.insert(sums.end(), squares.begin(), squares.end());
  return sums;
}

// tests/golden/make_adafactor.py ran transformers and torch. They multiply and divide fp32 numbers
// in another order, and torch adds no eps to squares.
TEST(FactoredMoments, AnUpdateIsTransformersAndTorchs) {
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(SPILLWAY_SOURCE_DIR "/tests/golden/adafactor.json"));
  const std::vector<float> start = golden["start"];
  const std::vector<FactoredTensor> tensors = {{0, 6, 50}, {320, 1, 37}};
  const auto place = [](size_t i) { return i < 300 ? i : i + 20; };
  ASSERT_EQ(start.size(), 337);
  ASSERT_EQ(golden["cases"].size(), 3);
  for (const nlohmann::json& run : golden["cases"]) {
    OptimizerSpec spec = Adafactor();
    spec.learning_rate = run["spec"]["learning_rate"];
    spec.weight_decay = run["spec"]["weight_decay"];
    spec.decay_rate = run["spec"].value("decay_rate", spec.decay_rate);
    spec.clip_threshold = run["spec"].value("clip_threshold", spec.clip_threshold);
    spec.scale_parameter = run["spec"].value("scale_parameter", spec.scale_parameter);
    MeasuredUnit unit(spec, DType::kFloat32, tensors,
                      {.parameters = kParameterAlignment, .tile = kParameterAlignment},
                      {{0, kParameterAlignment}});
    for (size_t i = 0; i < start.size(); ++i) unit.Set(place(i), start[i], 0);
    UpdateScalars scalars = {.learning_rate = spec.learning_rate};
    for (const nlohmann::json& gradient : golden["gradients"]) {
      ++scalars.step;
      double squares = 0;
      for (size_t i = 0; i < start.size(); ++i) {
        unit.Set(place(i), unit.Master(place(i)), gradient[i]);
        squares += gradient[i].get<double>() * gradient[i].get<double>();
      }
      MeasureTogether({&unit}, scalars, squares);
      unit.Update(scalars);
    }
    const std::vector<float> expected = run["after"];
    for (size_t i = 0; i < start.size(); ++i) {
      ASSERT_NEAR(unit.Master(place(i)), expected[i],
                  2e-6 * (std::abs(start[i]) + spec.learning_rate * 6))
          << run["spec"] << " " << i;
    }
    for (size_t i = 300; i < 320; ++i) EXPECT_EQ(unit.Master(i), 0) << "no tensor's";
  }
}

// Rows of which several, one, or a part lie in a tile, a block or a shard.
const std::vector<FactoredTensor> kMatrices = {
    {0, 7, 43}, {320, 3, 1500}, {4832, 1, 700}, {5536, 90, 1}, {5700, 2, 2200}};
constexpr uint64_t kCount = 5 * kParameterAlignment;

float StartOf(uint64_t i) { return 0.02f * static_cast<float>(std::sin(0.37 * double(i))); }
// Of fifteen decades.
float WideGradientOf(uint64_t i, int64_t step) {
  const double size = std::pow(10.0, std::fmod(0.618 * double(i), 15) - 12);
  return static_cast<float>(size * std::cos(0.11 * double(i) + double(step)));
}

struct MomentsOutcome {
  std::vector<double> sums;
  std::vector<float> moments, masters;
  friend bool operator==(const MomentsOutcome&, const MomentsOutcome&) = default;
};

// Two steps of the shards that `cut` makes.
MomentsOutcome Train(const OptimizerSpec& spec, uint64_t tile, int ranks, bool backwards) {
  std::vector<std::unique_ptr<MeasuredUnit>> own;
  std::vector<MeasuredUnit*> shards;
  const uint64_t each = kCount / ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    own.push_back(std::make_unique<MeasuredUnit>(
        spec, DType::kBFloat16, kMatrices,
        MeasuredUnit::Cut{rank * each, each, tile, /*portions=*/5 / ranks}));
    shards.push_back(own.back().get());
    for (uint64_t i = 0; i < each; ++i) shards[rank]->Set(i, StartOf(rank * each + i), 0);
  }
  MomentsOutcome outcome;
  UpdateScalars scalars = {.learning_rate = spec.learning_rate, .gradient_scale = 0.25};
  for (scalars.step = 1; scalars.step <= 2; ++scalars.step) {
    double squares = 0;
    for (MeasuredUnit* shard : shards) {
      for (uint64_t i = 0; i < each; ++i) {
        const float g = WideGradientOf(shard->begin() + i, scalars.step);
        shard->Set(i, shard->Master(i), g);
        squares += double(g) * g;
      }
    }
    outcome.sums = MeasureTogether(shards, scalars, squares, backwards);
    for (MeasuredUnit* shard : shards) shard->Update(scalars);
  }
  outcome.moments = shards[0]->moments().values();
  for (const MeasuredUnit* shard : shards) {
    for (uint64_t i = 0; i < each; ++i) outcome.masters.push_back(shard->Master(i));
  }
  return outcome;
}

TEST(FactoredMoments, ThereAreTheSameBitsHoweverTheUnitIsCutAndComputed) {
  for (const bool scales : {false, true}) {
    OptimizerSpec spec = Adafactor();
    spec.scale_parameter = scales;
    const MomentsOutcome expected = Train(spec, kParameterAlignment, 1, false);
    ForEachSimdTarget([&](SimdTarget target) {
      SCOPED_TRACE(std::string(SimdTargetName(target)));
      for (const uint64_t tile :
           {kParameterAlignment, 2 * kParameterAlignment, 8 * kParameterAlignment}) {
        EXPECT_EQ(Train(spec, tile, 1, true), expected) << tile;
        EXPECT_EQ(Train(spec, tile, 5, false), expected) << tile;
      }
    });
  }
}

// Sums of squares that differ by sixty binary places are those that exact arithmetic gives.
TEST(FactoredMoments, SmallSquaresBesideLargeOnesAreNotLost) {
  OptimizerSpec spec = Adafactor();
  spec.eps = 1e-37;
  FactoredMoments moments({{{0, 2, 1000}}}, {0}, spec);
  std::vector<float> gradient(2000, 1e-9f);
  gradient[0] = 30;
  moments.Begin(900.000001);
  moments.AddSquares(0, {0, 2000, 0}, DType::kFloat32, gradient.data());
  moments.Take({.step = 1});
  const std::vector<float>& values = moments.values();
  ASSERT_EQ(values.size(), 1002);
  EXPECT_FLOAT_EQ(values[0], 0.9f);
  EXPECT_FLOAT_EQ(values[1], 1e-18f);  // the second row
  EXPECT_FLOAT_EQ(values[2], 450.f);   // the first column
  EXPECT_FLOAT_EQ(values[3], 1e-18f);
  // Of the second step's squares 2^-0.8 is added, and nothing of the first's is left in the sums.
  moments.Begin(0);
  moments.Take({.step = 2});
  EXPECT_FLOAT_EQ(values[0], static_cast<float>(0.9 * (1 - std::pow(2, -0.8))));
}

TEST(FactoredMoments, AreRestoredWholeOrNot) {
  FactoredMoments moments({{{0, 2, 3}}, {}}, {0, 0}, Adafactor());
  EXPECT_THAT(
      std::string(moments.Restore({1, 2, 3}).message()),
      testing::AllOf(testing::HasSubstr("has 3"), testing::HasSubstr("5 rows and columns")));
  ASSERT_TRUE(moments.Restore({1, 2, 3, 4, 5}).ok());
  EXPECT_EQ(moments.values(), std::vector<float>({1, 2, 3, 4, 5}));
}

TEST(TensorRatio, OfAdafactorClipsUpdatesAndScalesRates) {
  OptimizerSpec spec = Adafactor();
  spec.clip_threshold = 2;
  EXPECT_EQ(TensorRatioOf(spec)({.weights = 400, .directions = 100, .parameters = 100}), 1);
  EXPECT_EQ(TensorRatioOf(spec)({.weights = 400, .directions = 6400, .parameters = 100}), 0.25);
  spec.scale_parameter = true;
  EXPECT_EQ(TensorRatioOf(spec)({.weights = 400, .directions = 6400, .parameters = 100}), 0.5);
  EXPECT_EQ(TensorRatioOf(spec)({.weights = 0, .directions = 0, .parameters = 100}), 1e-3);
  EXPECT_EQ(TensorRatioOf(spec)({.weights = 4, .directions = NAN, .parameters = 1}), 2);
}

}  // namespace
}  // namespace spillway
