// The pairs of texts of tests/golden/make_seq2seq.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "engine/datasets/pair_dataset.h"
#include "engine/datasets/speech_dataset.h"

namespace spillway {

inline constexpr int64_t kGoldenPairWords = 53;

class GoldenPairs : public Dataset {
 public:
  explicit GoldenPairs(const TransformerConfig& config) : config_(config) {}

  int64_t size() const override { return 80; }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    std::vector<TextPair> pairs;
    PairLengths lengths;
    for (const int64_t i : samples) {
      TextPair& pair = pairs.emplace_back();
      for (int64_t j = 0; j < 3 + i * 5 % 12; ++j) {
        pair.source.push_back((i * 37 + j * j * 7 + j * 3 + 11) % kGoldenPairWords);
      }
      for (int64_t j = 0; j < 2 + i * 3 % 9; ++j) {
        pair.target.push_back((i * 29 + j * j * 5 + j * 11 + 7) % kGoldenPairWords);
      }
      lengths.source = std::max<int64_t>(lengths.source, pair.source.size());
      lengths.target = std::max<int64_t>(lengths.target, pair.target.size());
    }
    if (!config_.hears()) return BatchOfPairs(pairs, config_, lengths);
    Batch batch;
    std::vector<torch::Tensor> heard;
    std::vector<absl::Span<const int64_t>> targets;
    for (size_t row = 0; row < pairs.size(); ++row) {
      heard.push_back(GoldenFrames(samples[row]));
      targets.push_back(pairs[row].target);
    }
    batch.inputs = torch::cat(heard);
    AddTargets(targets, config_, lengths.target, batch);
    return batch;
  }
  absl::StatusOr<std::optional<Batch>> Largest(int64_t count) override {
    if (config_.hears()) return LargestSpeechBatch(config_, count, 10);
    return LargestPairBatch(config_, count, {14, 10});
  }
  std::string fingerprint() const override { return "golden"; }

 private:
  torch::Tensor GoldenFrames(int64_t i) const {
    std::vector<float> frames;
    for (int64_t band = 0; band < config_.encoder->speech->bands; ++band) {
      for (int64_t t = 0; t < SpeechFramesOf(config_); ++t) {
        frames.push_back(static_cast<float>(std::sin(0.7 * static_cast<double>(i) +
                                                     0.11 * static_cast<double>(band * band) +
                                                     0.29 * static_cast<double>(t))));
      }
    }
    return SpeechInput(frames, config_.encoder->speech->bands);
  }

  const TransformerConfig& config_;
};

}  // namespace spillway
