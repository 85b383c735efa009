// How fast the kernels are on this GPU, beside a plain copy in its memory. Prints a table;
// nothing is judged but that all of it ran.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "engine/cuda/cuda_optimizer_tiles.h"
#include "engine/cuda/device_arithmetic.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/round_body.h"
#include "engine/numeric/optimizer_state.h"
#include "tests/gpu/gpu.h"

namespace spillway {
namespace {

constexpr int kTiles = 64;
constexpr uint64_t kTile = kDefaultTileParameters;
constexpr uint64_t kParameters = kTiles * kTile;
constexpr int kRepeats = 20;

std::vector<char> Gradients() {
  std::vector<char> bytes(kParameters * 2);
  for (uint64_t i = 0; i < kParameters; ++i) {
    const uint16_t half =
        BFloat16FromFloat(1e-3f * (static_cast<float>(i * 2654435761 % 1001) - 500));
    std::memcpy(bytes.data() + 2 * i, &half, 2);
  }
  return bytes;
}

class GpuRates : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = WhyNoGpu(); !reason.empty()) GTEST_SKIP() << reason;
  }

  static void Row(const char* what, uint64_t bytes, double seconds) {
    std::printf("%-42s %8.1f us a tile %8.1f GB/s\n", what, seconds / kTiles * 1e6,
                static_cast<double>(bytes) / seconds / 1e9);
  }
};

TEST_F(GpuRates, Table) {
  std::printf("%s; bf16, %d tiles of %llu parameters, medians of %d\n", GpuName().c_str(), kTiles,
              static_cast<unsigned long long>(kTile), kRepeats);
  absl::Status status;
  const auto stream = GpuStream();
  const GpuBytes gradient(Gradients());

  const auto row = [&](const char* what, uint64_t bytes, const std::function<void()>& work) {
    const double seconds = SecondsOnGpu(kRepeats, work);
    status.Update(SynchronizeGpu());
    Row(what, bytes, seconds);
  };
  {
    const GpuBytes to(kParameters * 2);
    row("copy in the GPU's memory (read and written)", kParameters * 4,
        [&] { CopyOnGpu(to.data(), gradient.data(), kParameters * 2); });
  }
  for (const auto& [name, spec, bytes] :
       {std::tuple<const char*, OptimizerSpec, uint64_t>{"update, AdamW", {}, 26},
        {"update, SGD", {.kind = OptimizerSpec::Kind::kSgd, .weight_decay = 0}, 10}}) {
    const StateLayout layout({{"unit", kParameters}}, StatePlanes(spec, DType::kBFloat16), 2);
    CudaOptimizerTiles tiles(spec, DType::kBFloat16, layout, {{{0, kParameters}}});
    std::vector<std::unique_ptr<GpuBytes>> planes;
    for (const PlaneSpec& plane : layout.planes()) {
      planes.push_back(std::make_unique<GpuBytes>(std::vector<char>(plane.BytesOf(kParameters))));
    }
    const GpuBytes largest(4 * kTiles);
    int64_t step = 0;
    row(name, kParameters * bytes, [&] {
      ++step;
      for (int tile = 0; tile < kTiles; ++tile) {
        std::vector<char*> pointers;
        for (int p = 0; p < layout.num_planes(); ++p) {
          pointers.push_back(planes[p]->data() + layout.PlaneBegin(tile, p));
        }
        status.Update(
            tiles.UpdateOnDevice(stream,
                                 {.tile = tile,
                                  .first_parameter = layout.TileBegin(tile),
                                  .parameters = kTile,
                                  .planes = pointers.data(),
                                  .gradient = gradient.data() + layout.TileBegin(tile) * 2},
                                 {.step = step, .learning_rate = 1e-5},
                                 reinterpret_cast<uint32_t*>(largest.data()) + tile));
      }
    });
  }

  const GpuBytes sums(kParameters * 4), partials(kTiles * sizeof(RoundedPartial));
  float* const all_sums = reinterpret_cast<float*>(sums.data());
  row("gradient: first micro-batch", kParameters * 6, [&] {
    status.Update(AccumulateGradientOnDevice(stream, DType::kBFloat16, gradient.data(), kParameters,
                                             all_sums, true));
  });
  row("gradient: accumulation", kParameters * 10, [&] {
    status.Update(AccumulateGradientOnDevice(stream, DType::kBFloat16, gradient.data(), kParameters,
                                             all_sums, false));
  });
  {
    const GpuBytes rounded(kParameters * 2);
    RoundArguments arguments = {.sums = all_sums,
                                .gradient = rounded.data(),
                                .gradient_stride_bytes = kTile * 2,
                                .partials = reinterpret_cast<RoundedPartial*>(partials.data()),
                                .parameters = kTile,
                                .total = kParameters};
    row("gradient: rounding, a tile a launch", kParameters * 6, [&] {
      for (int tile = 0; tile < kTiles; ++tile) {
        RoundArguments one = arguments;
        one.sums += tile * kTile;
        one.gradient += tile * kTile * 2;
        one.partials += tile;
        one.total = kTile;
        EXPECT_EQ(LaunchRound(stream, DType::kBFloat16, one), nullptr);
      }
    });
    row("gradient: rounding, all tiles a launch", kParameters * 6,
        [&] { EXPECT_EQ(LaunchRound(stream, DType::kBFloat16, arguments), nullptr); });
    row("dropout", kParameters * 4, [&] {
      status.Update(DropoutApplyOnDevice(stream, {.seed = 1}, 0.1, 0, kParameters, DType::kBFloat16,
                                         gradient.data(), rounded.data()));
    });
  }
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace spillway
