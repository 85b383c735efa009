// The tokens of the models of tests/golden/make_decoders.py.
#pragma once

#include <torch/types.h>

#include <string>

#include "engine/torch/model.h"

namespace spillway {

inline constexpr int64_t kGoldenVocabulary = 61;

inline torch::Tensor GoldenTokens(int64_t count) {
  const torch::Tensor i = torch::arange(count);
  return (i * i * 7 + i * 3 + 11) % kGoldenVocabulary;
}

inline constexpr int64_t kGoldenLength = 14;

class GoldenWindows : public Dataset {
 public:
  int64_t size() const override { return 50; }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    const torch::Tensor all = GoldenTokens(50 * kGoldenLength + 1);
    const torch::Tensor inputs =
        torch::empty({static_cast<int64_t>(samples.size()), kGoldenLength}, torch::kInt64);
    const torch::Tensor labels = torch::empty_like(inputs);
    for (size_t i = 0; i < samples.size(); ++i) {
      inputs[i].copy_(all.narrow(0, samples[i] * kGoldenLength, kGoldenLength));
      labels[i].copy_(all.narrow(0, samples[i] * kGoldenLength + 1, kGoldenLength));
    }
    return Batch{inputs, labels};
  }
  std::string fingerprint() const override { return "golden"; }
};

}  // namespace spillway
