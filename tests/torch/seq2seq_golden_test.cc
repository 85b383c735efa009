// Every family with an encoder and a decoder against transformers: the numbers of
// tests/golden/make_seq2seq.py, whose weights and texts follow the formulas here and there.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "engine/layers/decoder.h"
#include "engine/torch/pair_dataset.h"
#include "tests/decoder_config.h"
#include "tests/torch/formula_weights.h"
#include "tests/torch/golden_run.h"
#include "tests/torch/in_memory_model.h"

namespace spillway {
namespace {

constexpr int64_t kGoldenPairWords = 53;

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

const nlohmann::json& GoldenSeq2Seq() {
  static const auto& golden = *new nlohmann::json(
      nlohmann::json::parse(FileText(SPILLWAY_SOURCE_DIR "/tests/golden/seq2seq.json")));
  return golden;
}

class Seq2SeqGolden : public testing::TestWithParam<std::string> {
 protected:
  const nlohmann::json& golden_ = GoldenSeq2Seq()[GetParam()];
  const ModelConfig config_ = ConfigOf(golden_["config"]);
  const Model model_ = *BuildDecoder(config_.decoder);
  FormulaWeights weights_{config_};
  GoldenPairs data_{config_.decoder};
};

TEST_P(Seq2SeqGolden, LossAndEveryGradientAreTransformers) {
  EXPECT_TRUE(config_.warnings.empty()) << config_.warnings.front();
  EXPECT_TRUE(config_.unsupported.empty()) << config_.unsupported.front();
  const InMemoryModel model(model_, weights_);
  const Batch batch = *data_.Get({0, 1, 2, 3});
  const Tensor loss = model.LossSum(batch) / batch.labels.ne(kIgnoredLabel).sum();
  EXPECT_NEAR(loss.item<double>(), golden_["loss"], 1e-5 * golden_["loss"].get<double>());
  loss.backward();
  ExpectGoldenGradients(model.Parameters(), golden_["gradients"]);
}

TEST_P(Seq2SeqGolden, AttentionInBlocksLosesAlike) {
  DecoderConfig config = config_.decoder, encoder = *config.encoder;
  config.attention_dropout = encoder.attention_dropout = 1e-9;  // keeps every probability
  config.encoder = std::make_shared<const DecoderConfig>(encoder);
  const InMemoryModel model(*BuildDecoder(config), weights_);
  const Batch batch = *data_.Get({0, 1, 2, 3});
  const Tensor loss = model.LossSum(batch) / batch.labels.ne(kIgnoredLabel).sum();
  loss.backward();
  ExpectGoldenGradients(model.Parameters(), golden_["gradients"]);
}

TEST_P(Seq2SeqGolden, PaddingAndNeighboursChangeNoState) {
  const InMemoryModel model(model_, weights_);
  const Tensor together = model.Hidden(*data_.Get({0, 3, 1}), /*training=*/false);
  const Tensor alone = model.Hidden(*data_.Get({0}), /*training=*/false);
  EXPECT_LT((together[0].narrow(0, 0, alone.size(1)) - alone[0]).abs().max().item<double>(), 1e-5);
}

TEST_P(Seq2SeqGolden, TwentyStepsLoseWhatPyTorchsLose) {
  const auto losses = [&](bool on_nvme) {
    return GoldenLosses(model_, data_, weights_, {20, 2, on_nvme, DType::kFloat32, 5e-4});
  };
  const std::vector<double> found = losses(true);
  ExpectGoldenLosses(found, golden_["losses"]);
  EXPECT_EQ(losses(false), found);
}

std::vector<std::string> GoldenSeq2SeqNames() {
  std::vector<std::string> names;
  for (const auto& [name, golden] : GoldenSeq2Seq().items()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Families, Seq2SeqGolden, testing::ValuesIn(GoldenSeq2SeqNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace spillway
