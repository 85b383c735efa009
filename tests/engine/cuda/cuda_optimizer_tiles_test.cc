// Tiles updated and rounded by the kernels' bodies: what they launch, and what they refuse.
// tests/gpu/kernels_test.cc holds every bit of them to the CPU's.
#include "engine/cuda/cuda_optimizer_tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/cuda/kernels.h"
#include "engine/cuda/round_body.h"
#include "engine/cuda/update_body.h"
#include "engine/numeric/gradient_loops.h"
#include "engine/numeric/moment_code.h"
#include "engine/numeric/optimizer_state.h"
#include "engine/numeric/split_master.h"
#include "tests/engine/cuda/emulated_kernels.h"
#include "tests/engine/cuda/hard_numbers.h"

namespace spillway {
namespace {

using Kind = OptimizerSpec::Kind;
using Masters = OptimizerSpec::Masters;
using ::testing::HasSubstr;

// One unit, its tiles' planes and gradient side by side in memory.
class Unit {
 public:
  Unit(const OptimizerSpec& spec, DType dtype, uint64_t parameters,
       std::vector<ParameterRange> decayed, uint64_t tile_parameters)
      : dtype_(dtype),
        layout_({{"h.3", parameters}}, StatePlanes(spec, dtype), DTypeBytes(dtype),
                tile_parameters),
        tiles_(spec, dtype, layout_, {std::move(decayed)}),
        gradient_(layout_.PaddedParameters(0) * DTypeBytes(dtype)) {
    for (int plane = 0; plane < layout_.num_planes(); ++plane) {
      planes_.emplace_back(layout_.UnitPlanesBytes(0, plane, plane + 1));
    }
  }

  // Masters that leave room below the largest weight, moments as training makes them, and
  // gradients of all kinds.
  void Fill(std::mt19937& random, float gradient_scale, bool hard) {
    const uint64_t parameters = layout_.units()[0].parameters;
    std::normal_distribution<float> normal;
    for (uint64_t i = 0; i < parameters; ++i) {
      SetMaster(i, hard ? std::ldexp(normal(random), static_cast<int>(random() % 140) - 135)
                        : normal(random));
      for (Plane plane : {Plane::kExpAvg, Plane::kExpAvgSq, Plane::kMomentum}) {
        const int index = layout_.PlaneIndex(plane);
        if (index < 0) continue;
        // With a scale: any code, but that no second moment is negative.
        if (index + 1 < layout_.num_planes() && layout_.planes()[index + 1].parameters > 1) {
          if (layout_.planes()[index].bytes == 1) {
            Get<uint8_t>(plane)[i] = static_cast<uint8_t>(random());
          } else {
            Get<uint16_t>(plane)[i] = static_cast<uint16_t>(random() % 0x7800);
          }
          if (i % kMomentBlock == 0) {
            reinterpret_cast<float*>(planes_[index + 1].data())[i / kMomentBlock] =
                std::ldexp(1.5f, hard ? -static_cast<int>(random() % 149) : -5);
          }
          continue;
        }
        float value = std::ldexp(normal(random), hard ? -static_cast<int>(random() % 149) : -5);
        if (plane == Plane::kExpAvgSq) value = std::abs(value);
        if (layout_.planes()[index].bytes == 2) {
          Get<uint16_t>(plane)[i] = BFloat16FromFloat(value);
        } else {
          Get<float>(plane)[i] = value;
        }
      }
    }
    // fp32's and bf16's largest gradients would end the run.
    gradient_ = HardNumbers(dtype_, layout_.PaddedParameters(0), random, gradient_scale, false);
    for (uint64_t i = 0; i < layout_.PaddedParameters(0); ++i) {
      if (dtype_ == DType::kFloat32) {
        auto* g = reinterpret_cast<uint32_t*>(gradient_.data()) + i;
        if ((*g & 0x7fffffff) > 0x50000000) *g &= 0x8fffffff;
      } else if (dtype_ == DType::kBFloat16) {
        auto* g = reinterpret_cast<uint16_t*>(gradient_.data()) + i;
        if ((*g & 0x7fff) > 0x5000) *g &= 0x8fff;
      }
    }
  }

  template <typename T>
  T* Get(Plane plane) {
    return reinterpret_cast<T*>(planes_[layout_.PlaneIndex(plane)].data());
  }
  char* gradient() { return gradient_.data(); }

  void SetMaster(uint64_t i, float value) {
    if (dtype_ == DType::kFloat32) {
      Get<float>(Plane::kWeight)[i] = value;
    } else if (dtype_ == DType::kBFloat16) {
      Get<uint16_t>(Plane::kWeight)[i] = Split(value).weight;
      if (layout_.MasterPlanes() == 1) return;
      if (layout_.planes()[1].bytes == 1) {
        Get<uint8_t>(Plane::kResidual)[i] = Split<uint8_t>(value).residual;
      } else {
        Get<uint16_t>(Plane::kResidual)[i] = Split(value).residual;
      }
    } else {
      Get<uint16_t>(Plane::kWeight)[i] = Float16FromFloat(value);
      Get<float>(Plane::kMaster)[i] = value;
    }
  }

  // On the CPU (`stream` null) or by kernels; what the run would see of it.
  absl::Status Step(void* stream, const UpdateScalars& scalars) {
    absl::Status status;
    for (int tile = 0; tile < layout_.NumTiles(0); ++tile) {
      const uint64_t begin = layout_.TileBegin(tile);
      std::vector<char*> pointers;
      for (int plane = 0; plane < layout_.num_planes(); ++plane) {
        pointers.push_back(planes_[plane].data() + layout_.PlaneBegin(tile, plane));
      }
      const TileView view = {.unit = 0,
                             .tile = tile,
                             .first_parameter = begin,
                             .parameters = layout_.TileParameters(0, tile),
                             .planes = pointers.data(),
                             .gradient = gradient_.data() + begin * DTypeBytes(dtype_)};
      uint32_t largest = 0xdeadbeef;
      status.Update(tiles_.UpdateOnDevice(stream, view, scalars, &largest));
      status.Update(tiles_.CheckUpdated(view, scalars, largest));
    }
    return status;
  }

  CudaOptimizerTiles& tiles() { return tiles_; }
  const StateLayout& layout() const { return layout_; }
  const std::vector<std::vector<char>>& planes() const { return planes_; }

 private:
  DType dtype_;
  StateLayout layout_;
  CudaOptimizerTiles tiles_;
  std::vector<std::vector<char>> planes_;
  std::vector<char> gradient_;
};

// More ranges than one launch can take.
TEST(CudaOptimizerTiles, ATileOfManySmallTensorsTakesSeveralLaunches) {
  constexpr uint64_t kParameters = 9000;
  std::vector<ParameterRange> ranges;
  for (uint64_t begin = 20; begin + 7 < kParameters; begin += 20) {
    ranges.push_back({begin, begin + 7});
  }
  std::mt19937 random(2);
  for (const OptimizerSpec& spec :
       {OptimizerSpec{}, OptimizerSpec{.kind = Kind::kSgd, .weight_decay = 0.1},
        OptimizerSpec{.moments = MomentFormat::kEightBit},
        OptimizerSpec{.moments = MomentFormat::kBFloat16, .masters = Masters::kNone}}) {
    Unit host(spec, DType::kBFloat16, kParameters, ranges, 1 << 20);
    host.Fill(random, 1, false);
    Unit device = host;
    const int before = Launches().kernels;
    const UpdateScalars scalars = {.step = 3, .learning_rate = 0.1};
    ASSERT_TRUE(host.Step(nullptr, scalars).ok());
    ASSERT_TRUE(device.Step(EmulatedStream(), scalars).ok());
    EXPECT_EQ(host.planes(), device.planes());
    const uint64_t boundaries = 2 * ranges.size();
    EXPECT_GE(Launches().kernels - before,
              (boundaries + kUpdateBoundaries) / (kUpdateBoundaries + 1));
    EXPECT_LE(Launches().kernels - before, boundaries / kUpdateBoundaries + 2);
  }
}

TEST(CudaOptimizerTiles, NeighbouringRangesTakeNoBoundary) {
  std::vector<ParameterRange> ranges;
  for (uint64_t begin = 0; begin < 2000; begin += 2) ranges.push_back({begin, begin + 2});
  Unit device({}, DType::kBFloat16, 2000, ranges, 4096);
  const int before = Launches().kernels;
  ASSERT_TRUE(device.Step(EmulatedStream(), {.step = 1, .learning_rate = 0.1}).ok());
  EXPECT_EQ(Launches().kernels - before, 1);
}

TEST(CudaOptimizerTiles, PaddingIsLeftAlone) {
  Unit device({}, DType::kFloat32, 2049, {{0, 2049}}, 4096);
  std::fill_n(reinterpret_cast<float*>(device.gradient()), 4096, 1.0f);
  ASSERT_TRUE(device.Step(EmulatedStream(), {.step = 1, .learning_rate = 0.1}).ok());
  EXPECT_NE(device.Get<float>(Plane::kWeight)[2048], 0);
  for (uint64_t i = 2049; i < 4096; ++i) ASSERT_EQ(device.Get<float>(Plane::kExpAvg)[i], 0);
}

TEST(CudaOptimizerTiles, ASkippedStepChangesNothingAndReportsNothing) {
  std::mt19937 random(3);
  Unit device({}, DType::kFloat16, 3000, {}, 4096);
  device.Fill(random, 1, false);
  const std::vector<std::vector<char>> start = device.planes();
  const int kernels = Launches().kernels, memsets = Launches().memsets;
  ASSERT_TRUE(device.Step(EmulatedStream(), {.step = 0, .skip = true}).ok());
  EXPECT_EQ(device.planes(), start);
  EXPECT_EQ(Launches().kernels, kernels);
  EXPECT_EQ(Launches().memsets, memsets + 1) << "the word is cleared all the same";
}

// Where one decays and where none does, in the first and in a later tile.
TEST(CudaOptimizerTiles, AMasterThatMustNotStandIsReportedAsByTheCpu) {
  for (DType dtype : kAllDTypes) {
    for (uint64_t at : {uint64_t{0}, uint64_t{1500}, uint64_t{4999}}) {
      for (float bad : {std::numeric_limits<float>::infinity(), std::nanf(""), -std::nanf("")}) {
        Unit host({}, dtype, 5000, {{0, 1000}, {3000, 4000}}, 2048);
        for (uint64_t i : {at, uint64_t{4999}}) {
          if (dtype == DType::kFloat32) {
            std::memcpy(host.gradient() + 4 * i, &bad, 4);
          } else {
            const uint16_t half =
                dtype == DType::kBFloat16 ? BFloat16FromFloat(bad) : Float16FromFloat(bad);
            std::memcpy(host.gradient() + 2 * i, &half, 2);
          }
        }
        Unit device = host;
        const UpdateScalars scalars = {.step = 17, .learning_rate = 1e-3};
        const absl::Status expected = host.Step(nullptr, scalars);
        EXPECT_EQ(expected.code(), absl::StatusCode::kOutOfRange);
        EXPECT_THAT(std::string(expected.message()), HasSubstr("unit h.3, step 17: parameter " +
                                                               std::to_string(at) + " became nan"));
        EXPECT_EQ(device.Step(EmulatedStream(), scalars), expected);
      }
    }
  }
}

TEST(CudaOptimizerTiles, RefusesExactlyTheMastersWhoseWeightWouldBeInfinite) {
  const auto step_from = [](DType dtype, float master) {
    Unit device({.kind = Kind::kSgd, .weight_decay = 0}, dtype, 100, {}, 2048);
    device.SetMaster(7, master);
    return device.Step(EmulatedStream(), {.step = 1, .learning_rate = 1});
  };
  const float last_bf16 = std::bit_cast<float>(kFirstUnsplittableMagnitude - 1);
  const float first_bad_bf16 = std::bit_cast<float>(kFirstUnsplittableMagnitude);
  EXPECT_TRUE(step_from(DType::kBFloat16, -last_bf16).ok());
  EXPECT_FALSE(step_from(DType::kBFloat16, first_bad_bf16).ok());
  EXPECT_TRUE(step_from(DType::kFloat16, 65519.99f).ok());
  EXPECT_FALSE(step_from(DType::kFloat16, -65520.0f).ok());
  EXPECT_TRUE(step_from(DType::kFloat32, std::numeric_limits<float>::max()).ok());
}

void ExpectSamePartial(const GradientPartial& partial, const GradientPartial& expected,
                       const std::string& what) {
  EXPECT_EQ(partial.finite, expected.finite) << what;
  if (std::isnan(expected.sum_of_squares)) {
    EXPECT_TRUE(std::isnan(partial.sum_of_squares)) << what;
  } else {
    EXPECT_EQ(std::bit_cast<uint64_t>(partial.sum_of_squares),
              std::bit_cast<uint64_t>(expected.sum_of_squares))
        << what;
  }
}

// All tiles of a unit in one launch.
TEST(LaunchRound, RoundsManyTilesAtOnce) {
  constexpr uint64_t kParameters = 5000, kTotal = 2 * kParameters + 123;
  std::mt19937 random(5);
  for (DType dtype : kAllDTypes) {
    std::vector<float> sums(kTotal);
    for (float& sum : sums) sum = HardNumber(random, 1e-3f, false);
    std::vector<char> host(kTotal * DTypeBytes(dtype)), device(kTotal * DTypeBytes(dtype));
    std::vector<GradientPartial> partials(3);
    const RoundArguments arguments = {
        .sums = sums.data(),
        .gradient = device.data(),
        .gradient_stride_bytes = kParameters * DTypeBytes(dtype),
        .partials = reinterpret_cast<RoundedPartial*>(partials.data()),
        .parameters = kParameters,
        .total = kTotal};
    const int before = Launches().kernels;
    ASSERT_EQ(LaunchRound(EmulatedStream(), dtype, arguments), nullptr);
    EXPECT_EQ(Launches().kernels, before + 1);
    for (uint64_t tile = 0; tile < 3; ++tile) {
      const uint64_t begin = tile * kParameters;
      const double expected =
          RoundGradient(dtype, sums.data() + begin, host.data() + begin * DTypeBytes(dtype),
                        std::min(kParameters, kTotal - begin));
      ExpectSamePartial(partials[tile], {expected, std::isfinite(expected)},
                        std::string(DTypeName(dtype)));
    }
    EXPECT_EQ(device, host);
  }
}

TEST(CudaOptimizerTiles, ARefusedLaunchIsAnErrorWithItsReason) {
  const RefusedLaunches refused("invalid device function");
  Unit device({}, DType::kFloat32, 100, {}, 2048);
  EXPECT_EQ(device.Step(EmulatedStream(), {.step = 1}).message(),
            "CUDA did not take the kernel for updating tiles: invalid device function");
  float sum = 1;
  GradientPartial partial;
  EXPECT_EQ(device.tiles().RoundOnDevice(EmulatedStream(), 0, 0, 1, &sum, &sum, &partial).message(),
            "CUDA did not take the kernel for rounding gradients: invalid device function");
}

}  // namespace
}  // namespace spillway
