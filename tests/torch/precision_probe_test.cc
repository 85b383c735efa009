#include "engine/torch/precision_probe.h"

#include <ATen/Parallel.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include "engine/families/model_config.h"
#include "engine/layers/build_model.h"
#include "engine/layers/transformer.h"
#include "engine/torch/describe_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using Kind = MeasuredProduct::Kind;
using testing::HasSubstr;
using testing::StartsWith;

constexpr NativeProducts kHasBf16 = {.bf16 = true, .avx512 = true};

ModelDescription Described(const nlohmann::json& config) {
  const auto document = ParseStrictJson(config.dump(), "config.json");
  return *DescribeModel(*BuildTransformer(ParseModelConfig(*document)->transformer));
}

ModelDescription Gpt2(int64_t vocabulary, int64_t width, int64_t layers) {
  return Described({{"model_type", "gpt2"},
                    {"vocab_size", vocabulary},
                    {"n_positions", 64},
                    {"n_embd", width},
                    {"n_layer", layers},
                    {"n_head", 2}});
}

std::map<Kind, double> ArithmeticByKind(const std::vector<MeasuredProduct>& products) {
  std::map<Kind, double> sums;
  for (const MeasuredProduct& p : products) {
    sums[p.kind] += p.times * static_cast<double>(p.rows) * static_cast<double>(p.in) *
                    static_cast<double>(p.out);
  }
  return sums;
}

TEST(PrecisionProbe, ScaledUpProductsAreTheModels) {
  for (const int64_t width : {48, 1536}) {
    for (const int64_t samples : {1, 8}) {
      const auto products = ProductsOf(Gpt2(9000, width, 3), samples, 512);
      const double tokens = static_cast<double>(samples) * 512, d = static_cast<double>(width);
      std::map<Kind, double> sums = ArithmeticByKind(products);
      // Queries, keys, values; the output; an MLP four times as wide.
      EXPECT_NEAR(sums[Kind::kLinear] / (3 * tokens * 12 * d * d), 1, 1e-9) << width;
      EXPECT_NEAR(sums[Kind::kLoss] / (tokens * 9000 * d), 1, 1e-9) << width;
      for (const MeasuredProduct& p : products) {
        EXPECT_LE(p.rows, 256);
        EXPECT_LE(p.in, 1024);
        EXPECT_LE(p.out, 4096);
        EXPECT_GT(p.times, 0);
      }
    }
  }
}

TEST(PrecisionProbe, WideLayersShareTheirMeasurements) {
  // Of width 2048 every matrix is cut to 1024 x 1024.
  EXPECT_EQ(ProductsOf(Gpt2(9000, 2048, 5), 1, 64).size(), 3u);  // linear, attention, loss
}

TEST(PrecisionProbe, SecondsAreThoseOfEachPrecision) {
  // Its own dtype takes 2 s and fp32 takes 1 s, by a clock that each call moves on.
  int call = 0;
  double now = 0;
  const auto clock = [&] {
    const double passed[] = {0, 0, 2, 0, 1};
    return now += passed[call++ % 5];
  };
  const MeasuredProduct product = {Kind::kLinear, 4, 8, 8, 1, 10};
  const auto seconds = MeasurePrecisions({product}, DType::kBFloat16, clock);
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_DOUBLE_EQ(seconds->own, 20);
  EXPECT_DOUBLE_EQ(seconds->fp32, 10);
}

TEST(PrecisionProbe, EveryKindIsMeasuredInBothFormats) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    double now = 0;
    for (const MeasuredProduct& product : {MeasuredProduct{Kind::kLinear, 3, 8, 5, 1, 1},
                                           MeasuredProduct{Kind::kConvolution, 2, 3, 4, 3, 1},
                                           MeasuredProduct{Kind::kAttention, 7, 0, 0, 1, 1},
                                           MeasuredProduct{Kind::kLoss, 5, 8, 11, 1, 1}}) {
      const auto seconds = MeasurePrecisions({product}, dtype, [&] { return now += 1; });
      ASSERT_TRUE(seconds.ok()) << seconds.status();
      EXPECT_GT(seconds->own, 0);
      EXPECT_GT(seconds->fp32, 0);
    }
  }
}

class TokenData : public Dataset {
 public:
  int64_t size() const override { return 4; }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    const torch::Tensor zeros =
        torch::zeros({static_cast<int64_t>(samples.size()), 16}, torch::kInt64);
    return Batch{zeros, zeros};
  }
  std::string fingerprint() const override { return ""; }
};

class ChooseComputeTest : public testing::Test {
 protected:
  void SetUp() override { setenv("SPILLWAY_PROFILE", path_.c_str(), 1); }
  void TearDown() override { setenv("SPILLWAY_PROFILE", "off", 1); }

  TrainOptions Choose(const std::vector<std::pair<std::string, std::string>>* identity = nullptr,
                      const NativeProducts& native = kHasBf16) {
    TrainOptions options;
    options.threads = at::get_num_threads();
    EXPECT_TRUE(ChooseComputeByMeasuring(Gpt2(50, 8, 1), data_, /*on_gpu=*/false, identity,
                                         /*world=*/nullptr, &options, native)
                    .ok());
    return options;
  }

  // Puts other seconds into the profile that a first choice has left.
  void Rewrite(double own, double fp32) {
    std::ifstream in(path_);
    auto profile = nlohmann::json::parse(in);
    for (auto& [key, machine] : profile["machines"].items()) {
      ASSERT_EQ(machine["products"].size(), 1u);
      for (auto& [shapes, entry] : machine["products"].items()) {
        EXPECT_THAT(shapes, HasSubstr("LibTorch"));
        entry["own_seconds"] = own;
        entry["fp32_seconds"] = fp32;
      }
    }
    std::ofstream(path_) << profile;
  }

  ScratchDirectory scratch_;
  const std::string path_ = scratch_.path() + "/profile.json";
  TokenData data_;
};

TEST_F(ChooseComputeTest, TheFasterOneIsTakenAndKeptInTheProfile) {
  EXPECT_TRUE(Choose().compute.has_value());
  Rewrite(0.5, 0.25);
  const TrainOptions fp32 = Choose();
  EXPECT_EQ(fp32.compute, DType::kFloat32);
  EXPECT_THAT(fp32.compute_reason, HasSubstr("2.00 times as long in bf16"));
  Rewrite(0.2, 0.3);
  const TrainOptions bf16 = Choose();
  EXPECT_EQ(bf16.compute, DType::kBFloat16);
  EXPECT_THAT(bf16.compute_reason, HasSubstr("1.50 times as long in fp32"));
}

TEST_F(ChooseComputeTest, ACommitsPrecisionIsKept) {
  Choose();
  Rewrite(0.1, 0.3);
  for (const char* was : {"fp32", "bf16", "fp8, else fp32"}) {
    const std::vector<std::pair<std::string, std::string>> identity = {{"compute", was}};
    const TrainOptions options = Choose(&identity);
    EXPECT_EQ(options.compute, was[0] == 'b' ? DType::kBFloat16 : DType::kFloat32) << was;
    EXPECT_THAT(options.compute_reason, StartsWith("as in the commit"));
  }
}

TEST_F(ChooseComputeTest, NothingIsMeasuredWhereTheRuleIsEnough) {
  EXPECT_EQ(Choose(nullptr, {}).compute, DType::kFloat32);  // no instructions for bf16
  setenv("SPILLWAY_PROFILE", "off", 1);
  const TrainOptions off = Choose();
  EXPECT_EQ(off.compute, DType::kBFloat16);
  EXPECT_EQ(off.compute_reason, "");
  EXPECT_FALSE(std::ifstream(path_).good());
}

}  // namespace
}  // namespace spillway
