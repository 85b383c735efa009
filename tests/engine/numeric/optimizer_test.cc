#include "engine/numeric/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/numeric/coded_moments.h"
#include "engine/numeric/moment_code.h"
#include "engine/numeric/optimizer_state.h"
#include "engine/numeric/split_master.h"
#include "tests/engine/numeric/simd_targets.h"

namespace spillway {
namespace {

using Kind = OptimizerSpec::Kind;
using Moments = MomentFormat;
using ::testing::HasSubstr;

// One unit's planes in memory, whole, cut into tiles on demand.
class Unit {
 public:
  Unit(const OptimizerSpec& spec, DType dtype, uint64_t parameters,
       std::vector<ParameterRange> decayed, uint64_t tile_parameters = kParameterAlignment)
      : dtype_(dtype),
        layout_({{"h.3", parameters}}, StatePlanes(spec, dtype), DTypeBytes(dtype),
                tile_parameters),
        tiles_(spec, dtype, layout_, {std::move(decayed)}),
        gradient_(layout_.PaddedParameters(0) * DTypeBytes(dtype)) {
    for (int plane = 0; plane < layout_.num_planes(); ++plane) {
      planes_.emplace_back(layout_.UnitPlanesBytes(0, plane, plane + 1));
    }
  }

  template <typename T>
  T* Get(Plane plane) {
    return reinterpret_cast<T*>(planes_[layout_.PlaneIndex(plane)].data());
  }

  void SetMaster(uint64_t i, float value) {
    if (dtype_ == DType::kFloat32) {
      Get<float>(Plane::kWeight)[i] = value;
    } else if (dtype_ == DType::kBFloat16) {
      Get<uint16_t>(Plane::kWeight)[i] = Split(value).weight;
      Get<uint16_t>(Plane::kResidual)[i] = Split(value).residual;
    } else {
      Get<uint16_t>(Plane::kWeight)[i] = Float16FromFloat(value);
      Get<float>(Plane::kMaster)[i] = value;
    }
  }

  float Master(uint64_t i) {
    if (dtype_ == DType::kFloat32) return Get<float>(Plane::kWeight)[i];
    if (dtype_ == DType::kFloat16) return Get<float>(Plane::kMaster)[i];
    return Join(Get<uint16_t>(Plane::kWeight)[i], Get<uint16_t>(Plane::kResidual)[i]);
  }

  void SetGradient(uint64_t i, float value) {
    uint16_t* halves = reinterpret_cast<uint16_t*>(gradient_.data());
    if (dtype_ == DType::kFloat32) {
      reinterpret_cast<float*>(gradient_.data())[i] = value;
    } else {
      halves[i] = dtype_ == DType::kBFloat16 ? BFloat16FromFloat(value) : Float16FromFloat(value);
    }
  }

  absl::Status Step(const UpdateScalars& scalars) {
    for (int tile = 0; tile < layout_.NumTiles(0); ++tile) {
      const uint64_t begin = layout_.TileBegin(tile);
      std::vector<char*> pointers;
      for (int plane = 0; plane < layout_.num_planes(); ++plane) {
        pointers.push_back(planes_[plane].data() + layout_.PlaneBegin(tile, plane));
      }
      absl::Status status =
          tiles_.Update({.unit = 0,
                         .tile = tile,
                         .first_parameter = begin,
                         .parameters = layout_.TileParameters(0, tile),
                         .planes = pointers.data(),
                         .gradient = gradient_.data() + begin * DTypeBytes(dtype_)},
                        scalars);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const std::vector<std::vector<char>>& planes() const { return planes_; }
  const StateLayout& layout() const { return layout_; }

 private:
  DType dtype_;
  StateLayout layout_;
  OptimizerTiles tiles_;
  std::vector<std::vector<char>> planes_;
  std::vector<char> gradient_;
};

OptimizerSpec OptimizerOf(const nlohmann::json& fields) {
  OptimizerSpec spec;
  const std::string kind = fields.at("kind");
  for (const Kind each : {Kind::kAdamW, Kind::kAdam, Kind::kSgd, Kind::kLion}) {
    if (kind == OptimizerName(each)) spec.kind = each;
  }
  spec.learning_rate = fields.at("learning_rate");
  spec.weight_decay = fields.at("weight_decay");
  spec.beta1 = fields.value("beta1", spec.beta1);
  spec.beta2 = fields.value("beta2", spec.beta2);
  spec.eps = fields.value("eps", spec.eps);
  spec.momentum = fields.value("momentum", spec.momentum);
  spec.dampening = fields.value("dampening", spec.dampening);
  spec.nesterov = fields.value("nesterov", spec.nesterov);
  return spec;
}

// tests/golden/make_optimizers.py ran torch itself. The differences are those of fma and
// of the order inside addcmul and addcdiv: 1e-6 of the value and of what was summed up.
TEST(OptimizerTiles, FollowTorchOptimFor20Steps) {
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(SPILLWAY_SOURCE_DIR "/tests/golden/optimizers.json"));
  const std::vector<float> start = golden["start"];
  ASSERT_EQ(golden["cases"].size(), 8);
  for (const nlohmann::json& run : golden["cases"]) {
    const OptimizerSpec spec = OptimizerOf(run["spec"]);
    Unit unit(spec, DType::kFloat32, start.size(), {{0, start.size() / 2}});
    for (size_t i = 0; i < start.size(); ++i) unit.SetMaster(i, start[i]);
    int64_t step = 0;
    for (const nlohmann::json& gradient : golden["gradients"]) {
      for (size_t i = 0; i < start.size(); ++i) unit.SetGradient(i, gradient[i]);
      ASSERT_TRUE(unit.Step({.step = ++step, .learning_rate = spec.learning_rate}).ok());
    }
    ASSERT_EQ(step, 20);
    const std::pair<const char*, Plane> planes[] = {{"weight", Plane::kWeight},
                                                    {"exp_avg", Plane::kExpAvg},
                                                    {"exp_avg_sq", Plane::kExpAvgSq},
                                                    {"momentum_buffer", Plane::kMomentum}};
    int compared = 0;
    for (const auto& [key, plane] : planes) {
      if (!run["after"].contains(key)) continue;
      ++compared;
      const std::vector<float> expected = run["after"][key];
      for (size_t i = 0; i < start.size(); ++i) {
        // What may cancel in the sum: the start, or the gradients.
        double terms = plane == Plane::kWeight ? std::abs(start[i]) : 0;
        for (const nlohmann::json& gradient : golden["gradients"]) {
          if (plane == Plane::kExpAvg || plane == Plane::kMomentum) {
            terms = std::max(terms, std::abs(gradient[i].get<double>()));
          }
        }
        const double scale = std::abs(expected[i]) + terms;
        ASSERT_NEAR(unit.Get<float>(plane)[i], expected[i], 1e-6 * scale)
            << run["spec"] << " " << key << " " << i;
      }
    }
    EXPECT_EQ(compared, unit.layout().num_planes());
  }
}

// DeepSpeed's Adam with bias_correction false (csrc/adam/multi_tensor_adam.cu), in double: torch's
// formulas with both corrections 1.
TEST(OptimizerTiles, MomentsAreTakenAsTheyAreWithoutBiasCorrection) {
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(SPILLWAY_SOURCE_DIR "/tests/golden/optimizers.json"));
  const std::vector<float> start = golden["start"];
  for (const Kind kind : {Kind::kAdamW, Kind::kAdam}) {
    const OptimizerSpec spec = {
        .kind = kind, .learning_rate = 1e-3, .bias_correction = false, .weight_decay = 0.1};
    Unit unit(spec, DType::kFloat32, start.size(), {{0, start.size()}});
    for (size_t i = 0; i < start.size(); ++i) unit.SetMaster(i, start[i]);
    std::vector<double> p(start.begin(), start.end()), m(start.size()), v(start.size());
    int64_t step = 0;
    for (const nlohmann::json& gradient : golden["gradients"]) {
      for (size_t i = 0; i < start.size(); ++i) {
        unit.SetGradient(i, gradient[i]);
        double g = gradient[i].get<float>();
        if (kind == Kind::kAdamW) p[i] *= 1 - spec.learning_rate * spec.weight_decay;
        if (kind == Kind::kAdam) g += spec.weight_decay * p[i];
        m[i] += (1 - spec.beta1) * (g - m[i]);
        v[i] = spec.beta2 * v[i] + (1 - spec.beta2) * g * g;
        p[i] -= spec.learning_rate * m[i] / (std::sqrt(v[i]) + spec.eps);
      }
      ASSERT_TRUE(unit.Step({.step = ++step, .learning_rate = spec.learning_rate}).ok());
    }
    for (size_t i = 0; i < start.size(); ++i) {
      ASSERT_NEAR(unit.Master(i), p[i], 3e-6 * (std::abs(p[i]) + std::abs(start[i]))) << i;
    }
  }
}

void FillRandomly(Unit& unit, uint64_t parameters) {
  for (uint64_t i = 0; i < parameters; ++i) {
    unit.SetMaster(i, std::sin(static_cast<float>(i)) + 1.5f);
    unit.SetGradient(i, std::cos(static_cast<float>(3 * i)) * 1e-2f);
  }
}

// bf16 and fp16 keep the master of an fp32 run, given gradients that both can hold.
TEST(OptimizerTiles, MastersAreThoseOfAnFp32Run) {
  constexpr uint64_t kParameters = 5000;
  for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    Unit low({}, dtype, kParameters, {{0, kParameters}});
    Unit full({}, DType::kFloat32, kParameters, {{0, kParameters}});
    for (int64_t step = 1; step <= 5; ++step) {
      for (uint64_t i = 0; i < kParameters; ++i) {
        const float start = std::sin(static_cast<float>(i));
        if (step == 1) low.SetMaster(i, start), full.SetMaster(i, start);
        const float gradient = static_cast<float>((i * 7 + step) % 64) / 64;
        low.SetGradient(i, gradient), full.SetGradient(i, gradient);
      }
      const UpdateScalars scalars = {.step = step, .learning_rate = 1e-2, .gradient_scale = 0.3};
      ASSERT_TRUE(low.Step(scalars).ok());
      ASSERT_TRUE(full.Step(scalars).ok());
    }
    for (uint64_t i = 0; i < kParameters; ++i) {
      ASSERT_EQ(low.Master(i), full.Master(i)) << DTypeName(dtype) << " " << i;
      if (dtype == DType::kFloat16) {
        ASSERT_EQ(low.Get<uint16_t>(Plane::kWeight)[i], Float16FromFloat(full.Master(i)));
      }
    }
  }
}

TEST(OptimizerTiles, BetasOfTheStepWinOverTheSpecs) {
  constexpr uint64_t kParameters = 500;
  for (const auto kind : {OptimizerSpec::Kind::kAdamW, OptimizerSpec::Kind::kLion}) {
    const OptimizerSpec other = {.kind = kind, .beta1 = 0.8, .beta2 = 0.99};
    Unit moved({.kind = kind}, DType::kFloat32, kParameters, {});
    Unit expected(other, DType::kFloat32, kParameters, {});
    for (Unit* unit : {&moved, &expected}) FillRandomly(*unit, kParameters);
    UpdateScalars scalars = {.step = 2, .learning_rate = 1e-2};
    ASSERT_TRUE(expected.Step(scalars).ok());
    scalars.betas = {0.8, 0.99};
    ASSERT_TRUE(moved.Step(scalars).ok());
    for (uint64_t i = 0; i < kParameters; ++i) {
      ASSERT_EQ(moved.Master(i), expected.Master(i)) << OptimizerName(kind) << " " << i;
    }
  }
}

TEST(OptimizerTiles, BitsDoNotDependOnTiling) {
  constexpr uint64_t kParameters = 9000;
  const std::vector<ParameterRange> decayed = {{10, 4000}, {4000, 4001}, {5000, 9000}};
  Unit small({}, DType::kBFloat16, kParameters, decayed, 2048);
  Unit large({}, DType::kBFloat16, kParameters, decayed, 1 << 20);
  for (Unit* unit : {&small, &large}) {
    FillRandomly(*unit, kParameters);
    for (int64_t step = 1; step <= 3; ++step) {
      ASSERT_TRUE(unit->Step({.step = step, .learning_rate = 1e-2}).ok());
    }
  }
  EXPECT_EQ(small.planes(), large.planes());
}

// The moments of a unit that keeps them in codes, as numbers; of exp_avg or exp_avg_sq.
std::vector<float> Decoded(Unit& unit, Plane moment, Moments format) {
  const bool first = moment == Plane::kExpAvg;
  const float* scales = unit.Get<float>(first ? Plane::kExpAvgScale : Plane::kExpAvgSqScale);
  std::vector<float> values;
  for (uint64_t i = 0; i < unit.layout().PaddedParameters(0); ++i) {
    float multiple;
    if (format == Moments::kEightBit) {
      multiple =
          (first ? kSignedMomentCode : kUnsignedMomentCode).values[unit.Get<uint8_t>(moment)[i]];
    } else if (first) {
      multiple = FloatFromFloat8(unit.Get<uint8_t>(moment)[i]) / 256;
    } else {
      multiple = FloatFromFloat16(unit.Get<uint16_t>(moment)[i]) / 32768;
    }
    values.push_back(multiple * scales[i / kMomentBlock]);
  }
  return values;
}

constexpr Moments kCodedFormats[] = {Moments::kEightBit, Moments::kFloat8};

// A step from coded moments is a step from what they say in fp32, whose moments are coded then:
// the first the nearest of the codes' values times its block's largest magnitude, the second a
// neighbour.
TEST(OptimizerTiles, MomentsInCodesAreUpdatedInFp32) {
  constexpr uint64_t kParameters = 4000;
  const std::vector<ParameterRange> decayed = {{10, 300}, {310, 311}, {1000, 4000}};
  for (const Moments format : kCodedFormats) {
    Unit coded({.moments = format, .weight_decay = 0.3}, DType::kBFloat16, kParameters, decayed,
               1 << 20);
    FillRandomly(coded, kParameters);
    for (int64_t step = 1; step <= 5; ++step) {
      Unit full({.weight_decay = 0.3}, DType::kBFloat16, kParameters, decayed);
      FillRandomly(full, kParameters);
      const auto before1 = Decoded(coded, Plane::kExpAvg, format);
      const auto before2 = Decoded(coded, Plane::kExpAvgSq, format);
      for (uint64_t i = 0; i < kParameters; ++i) {
        full.SetMaster(i, coded.Master(i));
        full.Get<float>(Plane::kExpAvg)[i] = before1[i];
        full.Get<float>(Plane::kExpAvgSq)[i] = before2[i];
      }
      const UpdateScalars scalars = {.step = step, .learning_rate = 1e-2, .gradient_scale = 0.7};
      ASSERT_TRUE(coded.Step(scalars).ok());
      ASSERT_TRUE(full.Step(scalars).ok());
      const auto after1 = Decoded(coded, Plane::kExpAvg, format);
      const auto after2 = Decoded(coded, Plane::kExpAvgSq, format);
      for (uint64_t i = 0; i < kParameters; ++i) {
        ASSERT_EQ(coded.Master(i), full.Master(i)) << "step " << step << " " << i;
        const float scale1 = coded.Get<float>(Plane::kExpAvgScale)[i / kMomentBlock];
        const float scale2 = coded.Get<float>(Plane::kExpAvgSqScale)[i / kMomentBlock];
        // Half, and all, of what lies between two codes near the largest.
        const bool fp8 = format == Moments::kFloat8;
        ASSERT_NEAR(after1[i], full.Get<float>(Plane::kExpAvg)[i], (fp8 ? 0.032 : 0.0071) * scale1)
            << i;
        ASSERT_NEAR(after2[i], full.Get<float>(Plane::kExpAvgSq)[i],
                    (fp8 ? 0.0005 : 0.0071) * scale2)
            << i;
        if (i % kMomentBlock != 0) continue;
        float largest1 = 0, largest2 = 0;
        for (uint64_t j = i; j < std::min(i + kMomentBlock, kParameters); ++j) {
          largest1 = std::max(largest1, std::abs(full.Get<float>(Plane::kExpAvg)[j]));
          largest2 = std::max(largest2, full.Get<float>(Plane::kExpAvgSq)[j]);
        }
        ASSERT_EQ(scale1, largest1);
        ASSERT_EQ(scale2, largest2);
      }
    }
  }
}

// A gradient whose square is the second moment keeps that where it is, one whose square is 0.9 of
// it moves it there in time, though a step is a tenth of what lies between two codes.
TEST(OptimizerTiles, SecondMomentsInCodesMoveByLessThanACode) {
  constexpr uint64_t kParameters = 2048;
  Unit unit({.moments = Moments::kEightBit, .weight_decay = 0}, DType::kFloat32, kParameters, {},
            1 << 20);
  for (uint64_t i = 0; i < kParameters; ++i) unit.SetGradient(i, i % kMomentBlock == 0 ? 1 : 0.5);
  int64_t step = 0;
  const auto mean = [&] {
    double sum = 0;
    for (const float value : Decoded(unit, Plane::kExpAvgSq, Moments::kEightBit)) sum += value;
    return sum / kParameters;
  };
  const auto run = [&](int64_t to) {
    while (++step <= to) ASSERT_TRUE(unit.Step({.step = step, .learning_rate = 0}).ok());
    --step;
  };
  run(5000);
  EXPECT_NEAR(mean(), 0.25, 0.01);
  for (uint64_t i = 0; i < kParameters; ++i) unit.SetGradient(i, i % kMomentBlock == 0 ? 1 : 0.4);
  run(10000);
  EXPECT_NEAR(mean(), 0.16, 0.01);
}

// Of a shard as of the whole: what a parameter is rounded by does not depend on who has it.
TEST(OptimizerTiles, WhatIsRoundedAtRandomInAShardIsThatOfTheWhole) {
  for (const Moments moments : {Moments::kBFloat16, Moments::kEightBit, Moments::kFloat8}) {
    const OptimizerSpec spec = {.moments = moments};
    const auto codes = [&](uint64_t parameters, uint64_t first, uint64_t seed) {
      const StateLayout layout({{"h.3", parameters}}, StatePlanes(spec, DType::kFloat32), 4);
      OptimizerTiles tiles(spec, DType::kFloat32, layout, {{}}, {seed, {first}});
      std::vector<std::vector<char>> planes;
      std::vector<char*> pointers;
      for (int p = 0; p < layout.num_planes(); ++p) {
        pointers.push_back(planes.emplace_back(layout.PlaneBytes(0, 0, p)).data());
      }
      std::vector<float> gradient(parameters);
      for (uint64_t i = 0; i < parameters; ++i) {
        gradient[i] = std::cos(static_cast<float>(3 * (first + i)));
      }
      EXPECT_TRUE(tiles
                      .Update({.parameters = parameters,
                               .planes = pointers.data(),
                               .gradient = gradient.data()},
                              {.step = 1, .learning_rate = 1e-2})
                      .ok());
      return planes[layout.PlaneIndex(Plane::kExpAvgSq)];
    };
    const std::vector<char> whole = codes(8192, 0, 5), shard = codes(4096, 4096, 5);
    const size_t half = moments == Moments::kEightBit ? 4096 : 8192;  // bytes
    EXPECT_TRUE(std::equal(shard.begin(), shard.begin() + half, whole.begin() + half));
    EXPECT_NE(codes(8192, 0, 6), whole);
  }
}

TEST(OptimizerTiles, BitsOfCodesDependOnNeitherTilingNorSimdTarget) {
  constexpr uint64_t kParameters = 9000;
  const std::vector<ParameterRange> decayed = {{10, 4000}, {4000, 4001}, {5000, 9000}};
  for (const auto& [kind, format] : {std::pair(Kind::kAdamW, Moments::kEightBit),
                                     {Kind::kAdam, Moments::kEightBit},
                                     {Kind::kSgd, Moments::kEightBit},
                                     {Kind::kLion, Moments::kEightBit},
                                     {Kind::kAdamW, Moments::kFloat8},
                                     {Kind::kSgd, Moments::kFloat8}}) {
    const OptimizerSpec spec = {
        .kind = kind, .moments = format, .momentum = kind == Kind::kSgd ? 0.9 : 0};
    std::vector<std::vector<char>> first;
    ForEachSimdTarget([&](SimdTarget target) {
      for (const uint64_t tile : {4096, 1 << 20}) {
        Unit unit(spec, DType::kBFloat16, kParameters, decayed, tile);
        FillRandomly(unit, kParameters);
        for (int64_t step = 1; step <= 3; ++step) {
          ASSERT_TRUE(unit.Step({.step = step, .learning_rate = 1e-2}).ok());
        }
        // Without what pads the scales of a tile.
        std::vector<std::vector<char>> planes = unit.planes();
        for (size_t p = 0; p < planes.size(); ++p) {
          if (unit.layout().planes()[p].parameters == 1) continue;
          std::vector<char> scales;
          for (int t = 0; t < unit.layout().NumTiles(0); ++t) {
            const char* const from = planes[p].data() + unit.layout().PlaneBegin(t, p);
            scales.insert(
                scales.end(), from,
                from + unit.layout().planes()[p].BytesOf(unit.layout().TileParameters(0, t)));
          }
          planes[p] = scales;
        }
        for (auto& plane : planes) plane.resize(std::min<size_t>(plane.size(), kParameters));
        if (first.empty()) first = planes;
        EXPECT_EQ(planes, first) << SimdTargetName(target) << " " << tile;
      }
    });
  }
}

TEST(OptimizerTiles, DecayOnlyWhatIsListed) {
  constexpr uint64_t kParameters = 7000;
  const std::vector<ParameterRange> decayed = {{0, 3}, {2040, 2060}, {4096, 6144}, {6999, 7000}};
  for (Kind kind : {Kind::kAdamW, Kind::kSgd}) {
    Unit unit({.kind = kind, .weight_decay = 0.5}, DType::kFloat32, kParameters, decayed);
    for (uint64_t i = 0; i < kParameters; ++i) unit.SetMaster(i, 1);
    ASSERT_TRUE(unit.Step({.step = 1, .learning_rate = 0.5}).ok());
    for (uint64_t i = 0; i < kParameters; ++i) {
      bool decays = false;
      for (const ParameterRange& range : decayed) decays |= i >= range.begin && i < range.end;
      ASSERT_EQ(unit.Master(i), decays ? 0.75f : 1.0f) << i;
    }
  }
}

TEST(OptimizerTiles, PaddingStaysZeroWhateverItsGradient) {
  constexpr uint64_t kParameters = 2049;
  Unit unit({}, DType::kBFloat16, kParameters, {{0, kParameters}});
  const uint64_t padded = unit.layout().PaddedParameters(0);
  ASSERT_GT(padded, kParameters);
  for (uint64_t i = 0; i < padded; ++i) unit.SetGradient(i, 1);
  ASSERT_TRUE(unit.Step({.step = 1, .learning_rate = 1e-2}).ok());
  EXPECT_NE(unit.Master(kParameters - 1), 0);
  for (uint64_t i = kParameters; i < padded; ++i) {
    ASSERT_EQ(unit.Master(i), 0);
    ASSERT_EQ(unit.Get<float>(Plane::kExpAvg)[i], 0);
    ASSERT_EQ(unit.Get<float>(Plane::kExpAvgSq)[i], 0);
  }
}

TEST(OptimizerTiles, ASkippedStepChangesNothing) {
  Unit unit({}, DType::kFloat16, 3000, {});
  FillRandomly(unit, 3000);
  const std::vector<std::vector<char>> before = unit.planes();
  ASSERT_TRUE(unit.Step({.step = 1, .learning_rate = 1, .skip = true}).ok());
  EXPECT_EQ(unit.planes(), before);
}

TEST(OptimizerTiles, AMasterThatIsNotFiniteNamesUnitStepAndFirstParameter) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const Moments moments :
         {Moments::kFloat32, Moments::kBFloat16, Moments::kEightBit, Moments::kFloat8}) {
      Unit unit({.moments = moments}, dtype, 5000, {{0, 100}});
      FillRandomly(unit, 5000);
      unit.SetGradient(4321, std::numeric_limits<float>::infinity());
      unit.SetGradient(4400, std::nanf(""));
      const absl::Status status = unit.Step({.step = 17, .learning_rate = 1e-3});
      EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("unit h.3, step 17: parameter 4321 became "));
      EXPECT_THAT(std::string(status.message()), HasSubstr("learning rate"));
    }
  }
}

// SGD without anything: the new master is the old one minus the gradient.
absl::Status StepFrom(DType dtype, float master) {
  Unit unit({.kind = Kind::kSgd, .weight_decay = 0}, dtype, 100, {});
  unit.SetMaster(7, master);
  return unit.Step({.step = 1, .learning_rate = 1});
}

TEST(OptimizerTiles, RefuseExactlyTheMastersWhoseWeightWouldBeInfinite) {
  const float last_bf16 = std::bit_cast<float>(kFirstUnsplittableMagnitude - 1);
  const float first_bad_bf16 = std::bit_cast<float>(kFirstUnsplittableMagnitude);
  EXPECT_TRUE(StepFrom(DType::kBFloat16, last_bf16).ok());
  EXPECT_TRUE(StepFrom(DType::kBFloat16, -last_bf16).ok());
  EXPECT_FALSE(StepFrom(DType::kBFloat16, first_bad_bf16).ok());
  EXPECT_FALSE(StepFrom(DType::kBFloat16, -first_bad_bf16).ok());
  EXPECT_TRUE(StepFrom(DType::kFloat16, 65519.99f).ok());
  EXPECT_FALSE(StepFrom(DType::kFloat16, -65520.0f).ok());
  EXPECT_TRUE(StepFrom(DType::kFloat32, std::numeric_limits<float>::max()).ok());
}

TEST(OptimizerTiles, RoundTellsOverflowFromTheSum) {
  StateLayout layout({{"head", 2048}}, StatePlanes({}, DType::kFloat16), 2);
  OptimizerTiles tiles({}, DType::kFloat16, layout, {{}});
  std::vector<float> sums(2048, 2);
  std::vector<uint16_t> gradient(2048);
  GradientPartial partial = tiles.Round(0, 0, 2048, sums.data(), gradient.data());
  EXPECT_TRUE(partial.finite);
  EXPECT_EQ(partial.sum_of_squares, 4 * 2048);
  EXPECT_EQ(gradient[2047], 0x4000);
  sums[100] = 1e6f;
  partial = tiles.Round(0, 0, 2048, sums.data(), gradient.data());
  EXPECT_FALSE(partial.finite);
}

TEST(Optimizer, RefusesNumbersThatMakeNoSense) {
  EXPECT_TRUE(ValidateOptimizer({}).ok());
  EXPECT_EQ(ValidateOptimizer({.beta2 = 1}).message(),
            "optimizer: beta2 is 1; it must be in [0, 1)");
  EXPECT_FALSE(ValidateOptimizer({.learning_rate = std::nan("")}).ok());
  EXPECT_FALSE(ValidateOptimizer({.eps = -1e-8}).ok());
  EXPECT_THAT(ValidateOptimizer({.eps = 0}).message(), HasSubstr("0/0"));
  EXPECT_FALSE(ValidateOptimizer({.kind = Kind::kAdam, .eps = 1e-40}).ok()) << "0 in fp32, nearly";
  EXPECT_TRUE(ValidateOptimizer({.kind = Kind::kLion, .eps = 0}).ok());
  EXPECT_TRUE(ValidateOptimizer({.weight_decay = 1e6}).ok());
  EXPECT_FALSE(ValidateOptimizer({.weight_decay = 1e7}).ok());
  EXPECT_FALSE(ValidateOptimizer({.kind = Kind::kSgd, .nesterov = true}).ok());
  EXPECT_TRUE(ValidateOptimizer({.kind = Kind::kSgd, .momentum = 0.9, .nesterov = true}).ok());
}

}  // namespace
}  // namespace spillway
