#include "engine/generation/sampling.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/torch/training_run.h"

namespace spillway {
namespace {

std::vector<int64_t> MayCome(const torch::Tensor& scores) {
  std::vector<int64_t> found;
  for (int64_t i = 0; i < scores.numel(); ++i) {
    if (std::isfinite(scores[i].item<float>())) found.push_back(i);
  }
  return found;
}

// tests/golden/make_speech.py
TEST(Sampling, TimesMayComeWhereTransformersLetThem) {
  const nlohmann::json golden =
      nlohmann::json::parse(FileText(SPILLWAY_SOURCE_DIR "/tests/golden/speech.json"));
  ASSERT_EQ(golden["times"].size(), 60);
  SamplingOptions options;
  options.temperature = 0;
  options.ends = {10};
  options.first_timestamp = 12;
  options.last_first_timestamp = 16;
  int i = 0;
  for (const auto& one : golden["times"]) {
    std::vector<float> scores;
    for (int c = 0; c < 24; ++c) {
      scores.push_back(
          static_cast<float>(3 * std::sin(1.3 * i + 2.1 * c * c + 0.7 * c) - (c >= 12 ? 1.5 : 0)));
    }
    std::vector<int64_t> text = {1, 2};
    for (const int64_t token : one["text"]) text.push_back(token);
    EXPECT_EQ(MayCome(ScoresOf(torch::tensor(scores), text, 2, options)),
              one["may"].get<std::vector<int64_t>>())
        << one["text"];
    ++i;
  }
}

TEST(Sampling, SuppressedTokensNeverComeAndSomeNotFirst) {
  SamplingOptions options;
  options.temperature = 0;
  options.suppressed = {1, 9};
  options.suppressed_first = {0};
  const torch::Tensor scores = torch::zeros({4});
  EXPECT_EQ(MayCome(ScoresOf(scores, {{5, 5}}, 2, options)), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(MayCome(ScoresOf(scores, {{5, 5, 2}}, 2, options)), (std::vector<int64_t>{0, 2, 3}));
}

TEST(Sampling, AFirstTokenIsForcedBehindASingleOneAlone) {
  SamplingOptions options;
  options.temperature = 0;
  options.forced_first = 3;
  options.suppressed_first = {0, 3};
  const torch::Tensor scores = torch::zeros({4});
  EXPECT_EQ(MayCome(ScoresOf(scores, {{2}}, 1, options)), std::vector<int64_t>{3});
  EXPECT_EQ(MayCome(ScoresOf(scores, {{2, 3}}, 1, options)), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(MayCome(ScoresOf(scores, {{2, 2}}, 2, options)), (std::vector<int64_t>{1, 2}));
}

}  // namespace
}  // namespace spillway
