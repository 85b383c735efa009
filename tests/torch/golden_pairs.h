// The pairs of texts of tests/golden/make_seq2seq.py.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "engine/torch/pair_dataset.h"

namespace spillway {

inline constexpr int64_t kGoldenPairWords = 53;

class GoldenPairs : public Dataset {
 public:
  explicit GoldenPairs(const DecoderConfig& config) : config_(config) {}

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
    return BatchOfPairs(pairs, config_, lengths);
  }
  absl::StatusOr<std::optional<Batch>> Largest(int64_t count) override {
    return LargestPairBatch(config_, count, {14, 10});
  }
  std::string fingerprint() const override { return "golden"; }

 private:
  const DecoderConfig& config_;
};

}  // namespace spillway
