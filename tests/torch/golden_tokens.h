// The tokens of the models of tests/golden/make_decoders.py.
#pragma once

#include <torch/types.h>

namespace spillway {

inline constexpr int64_t kGoldenVocabulary = 61;

inline torch::Tensor GoldenTokens(int64_t count) {
  const torch::Tensor i = torch::arange(count);
  return (i * i * 7 + i * 3 + 11) % kGoldenVocabulary;
}

}  // namespace spillway
