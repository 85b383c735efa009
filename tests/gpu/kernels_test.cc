// Every kernel on a GPU against the CPU, bit for bit.
//
// spillway_engine_test runs these cases on kernels that are emulated on the CPU
// (tests/engine/cuda/emulated_gpu.cc). What only a GPU shows is that its arithmetic is the CPU's,
// and that barriers, shuffles and launches are right.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cuda/cuda_optimizer_tiles.h"
#include "engine/cuda/device_arithmetic.h"
#include "engine/numeric/gradient_loops.h"
#include "engine/numeric/optimizer_state.h"
#include "engine/numeric/split_master.h"
#include "tests/engine/cuda/hard_numbers.h"
#include "tests/gpu/gpu.h"

namespace spillway {
namespace {

using Kind = OptimizerSpec::Kind;
using Masters = OptimizerSpec::Masters;

class GpuKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = WhyNoGpu(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

std::vector<char> BytesOf(const std::vector<float>& values) {
  const char* data = reinterpret_cast<const char*>(values.data());
  return std::vector<char>(data, data + values.size() * sizeof(float));
}

const OptimizerSpec kSpecs[] = {
    {},
    {.kind = Kind::kAdam, .weight_decay = 0.1},
    {.kind = Kind::kSgd, .weight_decay = 0.1},
    {.kind = Kind::kSgd, .weight_decay = 0.1, .momentum = 0.9, .dampening = 0.3},
    {.kind = Kind::kSgd, .weight_decay = 0.1, .momentum = 0.9, .nesterov = true},
    {.moments = MomentFormat::kEightBit},
    {.moments = MomentFormat::kBFloat16},
    {.kind = Kind::kLion, .weight_decay = 0.1},
    {.kind = Kind::kLion, .moments = MomentFormat::kEightBit, .masters = Masters::kNone},
    {.moments = MomentFormat::kBFloat16, .masters = Masters::kNone},
    {.moments = MomentFormat::kEightBit, .masters = Masters::kNone},
    {.moments = MomentFormat::kEightBit, .masters = Masters::k24Bit},
    {.kind = Kind::kSgd,
     .moments = MomentFormat::kBFloat16,
     .masters = Masters::kNone,
     .momentum = 0.9},
    {.kind = Kind::kSgd, .moments = MomentFormat::kEightBit, .momentum = 0.9},
    {.moments = MomentFormat::kFloat8, .masters = Masters::k24Bit},
    {.moments = MomentFormat::kFloat8},
    {.kind = Kind::kLion, .moments = MomentFormat::kFloat8, .masters = Masters::kNone},
};

// A tile in host memory, and a copy of it in the GPU's.
struct Tile {
  StateLayout layout;
  std::vector<std::vector<char>> planes;
  std::vector<char> gradient;

  // Numbers as training has them, and (`hard`) of every exponent.
  Tile(const OptimizerSpec& spec, DType dtype, uint64_t parameters, bool hard, uint32_t seed)
      : layout({{"h.3", parameters}}, StatePlanes(spec, dtype), DTypeBytes(dtype), 1 << 20) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto value = [&](int low) {
      return std::ldexp(normal(random), hard ? -static_cast<int>(random() % -low) : low / 20);
    };
    const uint64_t padded = layout.PaddedParameters(0);
    for (const PlaneSpec& plane : layout.planes()) {
      planes.emplace_back(plane.BytesOf(padded));
    }
    for (uint64_t i = 0; i < parameters; ++i) {
      const float master = value(-140);
      const auto split = Split(master);
      const uint16_t half = Float16FromFloat(master);
      for (int p = 0; p < layout.num_planes(); ++p) {
        const PlaneSpec& plane = layout.planes()[p];
        char* to = planes[p].data() + plane.BytesOf(i);
        float moment = value(-149);
        if (plane.plane == Plane::kExpAvgSq) moment = std::abs(moment);
        if (plane.plane == Plane::kResidual) {
          const uint16_t upper = split.residual >> 8;  // of a master of 24 bits
          std::memcpy(to, plane.bytes == 1 ? &upper : &split.residual, plane.bytes);
        } else if (plane.plane == Plane::kWeight && dtype != DType::kFloat32) {
          std::memcpy(to, dtype == DType::kBFloat16 ? &split.weight : &half, 2);
        } else if (plane.parameters > 1) {
          const float scale = std::abs(moment);
          if (i % plane.parameters == 0) std::memcpy(to, &scale, 4);
        } else if (plane.bytes == 1) {
          *to = static_cast<char>(random());
        } else if (plane.bytes == 2 && spec.moments == MomentFormat::kFloat8) {
          const auto multiple = static_cast<uint16_t>(random() % 0x7800);
          std::memcpy(to, &multiple, 2);
        } else if (plane.bytes == 2) {
          const uint16_t narrow = BFloat16FromFloat(moment);
          std::memcpy(to, &narrow, 2);
        } else {
          const bool is_master = plane.plane == Plane::kWeight || plane.plane == Plane::kMaster;
          std::memcpy(to, is_master ? &master : &moment, 4);
        }
      }
    }
    gradient.resize(padded * DTypeBytes(dtype));
    for (uint64_t i = 0; i < padded; ++i) {
      const float g = value(-149);
      const uint16_t half = dtype == DType::kBFloat16 ? BFloat16FromFloat(g) : Float16FromFloat(g);
      std::memcpy(gradient.data() + i * DTypeBytes(dtype),
                  dtype == DType::kFloat32 ? static_cast<const void*>(&g) : &half,
                  DTypeBytes(dtype));
    }
  }

  TileView View(const std::vector<char*>& pointers, const void* the_gradient) const {
    return {.parameters = layout.TileParameters(0, 0),
            .planes = pointers.data(),
            .gradient = the_gradient};
  }
};

TEST_F(GpuKernels, UpdateHasTheBitsOfTheCpu) {
  // Begins and ends inside of blocks, at their edges, and in padding.
  const std::vector<ParameterRange> decayed = {
      {3, 5}, {1000, 1024}, {1024, 1030}, {2000, 2049}, {2050, 4096}, {5000, 6144}, {6150, 30000}};
  for (const OptimizerSpec& spec : kSpecs) {
    for (DType dtype : kAllDTypes) {
      for (uint64_t parameters : {1, 2047, 2048, 7001, 40960}) {
        for (bool hard : {false, true}) {
          Tile tile(spec, dtype, parameters, hard, 1);
          CudaOptimizerTiles tiles(spec, dtype, tile.layout, {decayed});
          std::vector<std::unique_ptr<GpuBytes>> planes;
          std::vector<char*> host_pointers, gpu_pointers;
          for (std::vector<char>& plane : tile.planes) {
            planes.push_back(std::make_unique<GpuBytes>(plane));
            host_pointers.push_back(plane.data());
            gpu_pointers.push_back(planes.back()->data());
          }
          const GpuBytes gradient(tile.gradient), largest(4);
          for (int64_t step = 1; step <= 2; ++step) {
            // Moments of unlike size make steps of any size.
            const double learning_rate = hard ? 1e-6 : 1e-3;
            const UpdateScalars scalars = {
                .step = step, .learning_rate = learning_rate, .gradient_scale = 0.37};
            ASSERT_EQ(tiles.Update(tile.View(host_pointers, tile.gradient.data()), scalars),
                      absl::OkStatus());
            ASSERT_TRUE(tiles
                            .UpdateOnDevice(GpuStream(), tile.View(gpu_pointers, gradient.data()),
                                            scalars, reinterpret_cast<uint32_t*>(largest.data()))
                            .ok());
            ASSERT_EQ(largest.ReadAs<uint32_t>(), 0);
            for (size_t p = 0; p < planes.size(); ++p) {
              ASSERT_TRUE(planes[p]->Read() == tile.planes[p])
                  << DTypeName(dtype) << " kind " << int(spec.kind) << " momentum " << spec.momentum
                  << " parameters " << parameters << " hard " << hard << " plane "
                  << PlaneName(tile.layout.planes()[p].plane) << " step " << step;
            }
          }
        }
      }
    }
  }
}

TEST_F(GpuKernels, AMasterThatMustNotStandIsReportedAsByTheCpu) {
  for (DType dtype : kAllDTypes) {
    Tile tile({}, dtype, 5000, false, 2);
    for (uint64_t i : {4321, 4400}) {
      std::memset(tile.gradient.data() + i * DTypeBytes(dtype), 0x7f, DTypeBytes(dtype));  // NaN
    }
    if (dtype == DType::kFloat32) {  // 0x7f7f7f7f is finite there
      const float infinite = INFINITY;
      for (uint64_t i : {4321, 4400}) std::memcpy(tile.gradient.data() + i * 4, &infinite, 4);
    } else if (dtype == DType::kBFloat16) {
      const uint16_t infinite = 0x7f80;
      for (uint64_t i : {4321, 4400}) std::memcpy(tile.gradient.data() + i * 2, &infinite, 2);
    }
    CudaOptimizerTiles tiles({}, dtype, tile.layout, {{{0, 100}}});
    std::vector<std::unique_ptr<GpuBytes>> planes;
    std::vector<char*> host_pointers, gpu_pointers;
    for (std::vector<char>& plane : tile.planes) {
      planes.push_back(std::make_unique<GpuBytes>(plane));
      host_pointers.push_back(plane.data());
      gpu_pointers.push_back(planes.back()->data());
    }
    const GpuBytes gradient(tile.gradient), largest(4);
    const UpdateScalars scalars = {.step = 17, .learning_rate = 1e-3};
    ASSERT_TRUE(tiles
                    .UpdateOnDevice(GpuStream(), tile.View(gpu_pointers, gradient.data()), scalars,
                                    reinterpret_cast<uint32_t*>(largest.data()))
                    .ok());
    const TileView host = tile.View(host_pointers, tile.gradient.data());
    const absl::Status expected = tiles.Update(host, scalars);
    EXPECT_FALSE(expected.ok());
    for (size_t p = 0; p < planes.size(); ++p) tile.planes[p] = planes[p]->Read();
    for (size_t p = 0; p < planes.size(); ++p) host_pointers[p] = tile.planes[p].data();
    EXPECT_EQ(
        tiles.CheckUpdated(tile.View(host_pointers, nullptr), scalars, largest.ReadAs<uint32_t>()),
        expected);
  }
}

TEST_F(GpuKernels, RoundHasTheBitsOfTheCpuAlsoInPlace) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (DType dtype : kAllDTypes) {
    StateLayout layout({{"head", 2048}}, StatePlanes({}, dtype), DTypeBytes(dtype));
    CudaOptimizerTiles tiles({}, dtype, layout, {{}});
    for (uint64_t count : {1, 15, 17, 4095, 4096, 4097, 8192, 30001, 262144}) {
      for (int kind = 0; kind < 4; ++kind) {
        std::vector<float> sums(count);
        for (float& sum : sums) {
          sum = kind == 0   ? normal(random) * 1e-3f
                : kind == 1 ? std::fmod(HardNumber(random, 1e-3f, false), 60000.0f)
                : kind == 2 ? HardNumber(random, 1, true)
                            : std::ldexp(normal(random), -static_cast<int>(random() % 27));
        }
        std::vector<char> host(count * DTypeBytes(dtype));
        const GradientPartial expected = tiles.Round(0, 0, count, sums.data(), host.data());
        const GpuBytes gpu_sums(BytesOf(sums)), gradient(host.size()), partial(sizeof(expected));
        for (bool in_place : {false, true}) {
          const GpuBytes& to = in_place ? gpu_sums : gradient;
          ASSERT_TRUE(tiles
                          .RoundOnDevice(GpuStream(), 0, 0, count,
                                         reinterpret_cast<const float*>(gpu_sums.data()), to.data(),
                                         reinterpret_cast<GradientPartial*>(partial.data()))
                          .ok());
          const GradientPartial got = partial.ReadAs<GradientPartial>();
          const std::string what = absl::StrCat(DTypeName(dtype), " ", count, " kind ", kind,
                                                in_place ? " in place" : "");
          EXPECT_EQ(got.finite, expected.finite) << what;
          if (std::isnan(expected.sum_of_squares)) {
            EXPECT_TRUE(std::isnan(got.sum_of_squares)) << what;
          } else {
            EXPECT_EQ(std::bit_cast<uint64_t>(got.sum_of_squares),
                      std::bit_cast<uint64_t>(expected.sum_of_squares))
                << what;
          }
          EXPECT_EQ(std::memcmp(to.Read().data(), host.data(), host.size()), 0) << what;
        }
      }
    }
  }
}

TEST_F(GpuKernels, AccumulationHasTheBitsOfTheCpu) {
  std::mt19937 random(4);
  for (DType dtype : kAllDTypes) {
    for (uint64_t count : {1, 3, 255, 256, 1023, 1024, 1025, 300001}) {
      // Odd places: gradients and sums need no more alignment than their numbers. What lies around
      // the sums stays.
      std::vector<float> host(count + 2);
      for (float& sum : host) sum = HardNumber(random, 1, true);
      const GpuBytes sums(BytesOf(host));
      for (bool first : {true, false, false}) {
        const std::vector<char> gradient = HardNumbers(dtype, count + 1, random, 1, true);
        const GpuBytes gpu_gradient(gradient);
        AccumulateGradient(dtype, gradient.data() + DTypeBytes(dtype), count, host.data() + 1,
                           first);
        ASSERT_TRUE(AccumulateGradientOnDevice(GpuStream(), dtype,
                                               gpu_gradient.data() + DTypeBytes(dtype), count,
                                               reinterpret_cast<float*>(sums.data()) + 1, first)
                        .ok());
        const std::vector<char> bytes = sums.Read();
        for (uint64_t i = 0; i < host.size(); ++i) {
          float got;
          std::memcpy(&got, bytes.data() + 4 * i, 4);
          ASSERT_TRUE(first ? BitsOf(got) == BitsOf(host[i]) : SameNumber(got, host[i]))
              << DTypeName(dtype) << " " << i;
        }
      }
    }
  }
}

TEST_F(GpuKernels, ExchangeHasTheBitsOfTheCpu) {
  std::mt19937 random(6);
  for (const ExchangeFormat format : {ExchangeFormat::kBFloat16, ExchangeFormat::kFloat8}) {
    for (uint64_t count : {1, 255, 256, 257, 1024, 300001}) {
      std::vector<float> sums(count), host(count);
      for (float& sum : sums) sum = HardNumber(random, 1, false);
      std::vector<char> encoded(ExchangedBytes(format, count), 'x');
      const GpuBytes from(BytesOf(sums)), to(encoded), scratch(kRoundScratchBytes);
      const GpuBytes added(count * sizeof(float));
      EncodeSums(format, sums.data(), count, encoded.data());
      ASSERT_TRUE(EncodeSumsOnDevice(GpuStream(), format,
                                     reinterpret_cast<const float*>(from.data()), count, to.data(),
                                     scratch.data())
                      .ok());
      ASSERT_TRUE(to.Read() == encoded) << ExchangeFormatName(format) << " " << count;
      for (bool first : {true, false}) {
        AddExchanged(format, encoded.data(), count, host.data(), first);
        ASSERT_TRUE(AddExchangedOnDevice(GpuStream(), format, to.data(), count,
                                         reinterpret_cast<float*>(added.data()), first)
                        .ok());
      }
      const std::vector<char> bytes = added.Read();
      for (uint64_t i = 0; i < count; ++i) {
        float got;
        std::memcpy(&got, bytes.data() + 4 * i, 4);
        ASSERT_TRUE(SameNumber(got, host[i])) << ExchangeFormatName(format) << " " << i;
      }
    }
  }
}

TEST_F(GpuKernels, DropoutHasTheMasksAndTheBitsOfTheCpu) {
  std::mt19937 random(5);
  const DropoutKey key = {.seed = 1234567890123, .step = 7, .sample = 3, .unit = 5, .site = 2};
  for (DType dtype : kAllDTypes) {
    const uint32_t bytes = DTypeBytes(dtype);
    for (double p : {0.0, 0.1, 0.5, 0.97}) {
      for (uint64_t begin : {uint64_t{0}, uint64_t{1}, uint64_t{127}, uint64_t{128}, uint64_t{129},
                             (uint64_t{1} << 35) - 70, (uint64_t{1} << 40) + 5}) {
        for (uint64_t count : {1, 16, 127, 129, 2048, begin == 129 ? 100003 : 4099}) {
          // Values around the range stay.
          const std::vector<char> in = HardNumbers(dtype, count + 2, random, 1, true);
          std::vector<char> host = in;
          DropoutApply(key, p, begin, count, dtype, in.data() + bytes, host.data() + bytes);
          const GpuBytes from(in), to(in);
          for (const GpuBytes* out : {&to, &from}) {
            ASSERT_TRUE(DropoutApplyOnDevice(GpuStream(), key, p, begin, count, dtype,
                                             from.data() + bytes, out->data() + bytes)
                            .ok());
            ASSERT_TRUE(out->Read() == host)
                << DTypeName(dtype) << " p " << p << " " << begin << " + " << count;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace spillway
