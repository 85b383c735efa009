#include "engine/media/log_mel.h"

#include <cmath>
#include <fstream>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

// tests/golden/make_speech.py
std::vector<float> GoldenSound(int i) {
  constexpr int kSamples = 8000;
  std::vector<float> samples;
  for (int t = 0; t < kSamples; ++t) {
    const double x = 0.4 * std::sin(0.02 * (i + 1) * t) + 0.3 * std::sin(0.31 * t + i) +
                     0.05 * std::sin(1.7 * t * t / kSamples);
    samples.push_back(static_cast<float>(x * (i < 2 ? 1 : 1e-3)));
  }
  return samples;
}

TEST(LogMel, FramesAreThoseOfTransformers) {
  std::ifstream file(SPILLWAY_SOURCE_DIR "/tests/golden/speech.json");
  const nlohmann::json golden = nlohmann::json::parse(file)["heard"];
  ASSERT_EQ(golden.size(), 6);
  for (const auto& one : golden) {
    const int64_t bands = one["bands"], frames = one["shape"][1];
    ASSERT_EQ(frames, 100);
    std::vector<float> made(bands * frames);
    LogMel(bands).Compute(GoldenSound(one["sound"]), frames, made.data());
    double worst = 0;
    for (int64_t band = 0; band < bands; band += 7) {
      for (int64_t t = 0; t < frames; t += 7) {
        const double expected = one["kept"][band / 7][t / 7];
        worst = std::max(worst, std::abs(made[band * frames + t] - expected));
      }
    }
    EXPECT_LT(worst, 1e-4) << bands << " bands, sound " << one["sound"];
  }
}

TEST(LogMel, WhatIsTooLongIsCutAndSilenceIsEven) {
  const LogMel mel(16);
  std::vector<float> sound = GoldenSound(0), made(16 * 20), cut(16 * 20);
  mel.Compute(sound, 20, made.data());
  sound.resize(20 * kMelHop);
  mel.Compute(sound, 20, cut.data());
  EXPECT_EQ(made, cut);
  mel.Compute({}, 20, made.data());
  // log10(1e-10) = -10
  EXPECT_EQ(made, std::vector<float>(16 * 20, -1.5F));
}

}  // namespace
}  // namespace spillway
