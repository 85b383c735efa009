// Every family and task of encoders, and decoders that classify texts, against transformers: the
// numbers of tests/golden/make_encoders.py, whose weights, texts and labels follow the formulas
// here and there.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "engine/layers/transformer.h"
#include "engine/torch/text_batch.h"
#include "tests/torch/formula_weights.h"
#include "tests/torch/golden_run.h"
#include "tests/torch/in_memory_model.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

using torch::Tensor;

constexpr int64_t kGoldenWords = 53, kGoldenTextLength = 12, kGoldenTextCount = 80;

std::vector<float> LabelsOf(const ClassifierConfig& classifier, int64_t sample) {
  const auto count = static_cast<int64_t>(classifier.labels.size());
  if (!classifier.problem) return {static_cast<float>(sample % count)};
  std::vector<float> labels;
  for (int64_t k = 0; k < count; ++k) {
    labels.push_back(*classifier.problem == ClassifierProblem::kRegression
                         ? static_cast<float>((sample + k) * 7 % 11) / 4 - 1
                         : static_cast<float>(sample >> k & 1));
  }
  return labels;
}

// Of some of a text's tokens.
std::vector<int64_t> TokenLabelsOf(const TransformerConfig& config, int64_t sample,
                                   int64_t length) {
  std::vector<int64_t> labels;
  for (int64_t j = 0; j < length; ++j) {
    const bool has = config.masked ? (sample + j) % 3 == 0 : j % 4 != 0;
    const int64_t label = config.masked ? (sample * 5 + j * 3) % kGoldenWords : (sample + j) % 3;
    labels.push_back(has ? label : kIgnoredLabel);
  }
  return labels;
}

// The first and the last token of an answer; every thirteenth lies outside of its text.
std::vector<int64_t> SpanOf(int64_t sample, int64_t length) {
  if (sample % 13 == 4) return {kIgnoredLabel, kIgnoredLabel};
  const int64_t first = sample * 3 % length;
  return {first, std::min(length - 1, first + sample % 3)};
}

class GoldenTexts : public Dataset {
 public:
  explicit GoldenTexts(const TransformerConfig& config) : config_(config) {}

  int64_t size() const override { return kGoldenTextCount; }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    std::vector<EncodedText> texts;
    std::vector<float> labels;
    std::vector<std::vector<int64_t>> of_tokens;
    std::vector<int64_t> spans;
    for (const int64_t i : samples) {
      EncodedText& text = texts.emplace_back();
      const int64_t length = 3 + i * 5 % 10;
      for (int64_t j = 0; j < length; ++j) {
        text.tokens.push_back((i * 37 + j * j * 7 + j * 3 + 11) % kGoldenWords);
        text.types.push_back(j >= length / 2 && config_.token_types > 1);
      }
      if (config_.finds_spans) {
        const std::vector<int64_t> span = SpanOf(i, length);
        spans.insert(spans.end(), span.begin(), span.end());
      } else if (LabelsTokens()) {
        of_tokens.push_back(TokenLabelsOf(config_, i, length));
      } else {
        for (const float label : LabelsOf(*config_.classifier, i)) labels.push_back(label);
      }
    }
    Batch batch = BatchOfTexts(texts, kGoldenTextLength, config_.padding_token.value_or(0));
    if (config_.finds_spans) {
      batch.labels = torch::tensor(spans).view({-1, 2});
      return batch;
    }
    if (LabelsTokens()) {
      batch.labels = LabelsOfTokens(of_tokens, kGoldenTextLength);
      return batch;
    }
    batch.labels = torch::tensor(labels);
    if (!config_.classifier->problem) batch.labels = batch.labels.to(torch::kInt64);
    return batch;
  }
  std::string fingerprint() const override { return "golden"; }
  bool LabelsTokens() const {
    return config_.masked || (config_.classifier && config_.classifier->of_tokens);
  }

 private:
  const TransformerConfig& config_;
};

const nlohmann::json& GoldenEncoders() {
  static const auto& golden = *new nlohmann::json(
      nlohmann::json::parse(FileText(SPILLWAY_SOURCE_DIR "/tests/golden/encoders.json")));
  return golden;
}

class EncoderGolden : public testing::TestWithParam<std::string> {
 protected:
  const nlohmann::json& golden_ = GoldenEncoders()[GetParam()];
  const ModelConfig config_ = ConfigOf(golden_["config"]);
  const Model model_ = *BuildTransformer(config_.transformer);
  FormulaWeights weights_{config_};
  GoldenTexts data_{config_.transformer};

  // Where tokens have labels, of those that have one.
  Tensor Scores(const InMemoryModel& model, const Batch& batch) const {
    const Tensor hidden = model.Hidden(batch);
    if (!data_.LabelsTokens()) return hidden;
    const Tensor rows = hidden.index({batch.labels.ne(kIgnoredLabel)});
    return config_.transformer.masked ? model.LogitsOf(rows) : rows;
  }
  static int64_t LabelsIn(const Batch& batch) {
    return batch.labels.ne(kIgnoredLabel).sum().item<int64_t>();
  }
};

TEST_P(EncoderGolden, ScoresLossAndEveryGradientAreTransformers) {
  EXPECT_TRUE(config_.warnings.empty()) << config_.warnings.front();
  EXPECT_TRUE(config_.unsupported.empty()) << config_.unsupported.front();
  const InMemoryModel model(model_, weights_);
  const Batch batch = *data_.Get({0, 1, 2, 3, 4, 5});
  const Tensor scores = Scores(model, batch);
  const std::vector<float> expected = golden_["logits"];
  EXPECT_LT((scores.flatten() - torch::tensor(expected)).abs().max().item<double>(), 1e-5);

  const Tensor loss = model.LossSum(batch) / LabelsIn(batch);
  EXPECT_NEAR(loss.item<double>(), golden_["loss"], 1e-5 * golden_["loss"].get<double>());
  loss.backward();
  ExpectGoldenGradients(model.Parameters(), golden_["gradients"]);
}

TEST_P(EncoderGolden, AttentionInBlocksScoresAlike) {
  TransformerConfig config = config_.transformer;
  config.attention_dropout = 1e-9;  // keeps every probability
  const InMemoryModel model(*BuildTransformer(config), weights_);
  const Batch batch = *data_.Get({0, 1, 2, 3, 4, 5});
  const Tensor scores = Scores(model, batch);
  const std::vector<float> expected = golden_["logits"];
  EXPECT_LT((scores.flatten() - torch::tensor(expected)).abs().max().item<double>(), 1e-5);
  (model.LossSum(batch) / LabelsIn(batch)).backward();
  ExpectGoldenGradients(model.Parameters(), golden_["gradients"]);
}

TEST_P(EncoderGolden, PaddingAndNeighboursChangeNoScore) {
  const InMemoryModel model(model_, weights_);
  const Tensor together = model.Hidden(*data_.Get({0, 3, 5}), /*training=*/false);
  Batch alone = *data_.Get({0});
  const int64_t length = alone.fields[kVisibleField].sum().item<int64_t>();
  alone.inputs = alone.inputs.narrow(1, 0, length);
  for (auto& [name, field] : alone.fields) field = field.narrow(1, 0, length);
  const Tensor score = model.Hidden(alone, /*training=*/false);
  const Tensor of_text = data_.LabelsTokens()              ? together[0].narrow(0, 0, length)
                         : config_.transformer.finds_spans ? together[0].narrow(1, 0, length)
                                                           : together[0];
  EXPECT_LT((of_text - score[0]).abs().max().item<double>(), 1e-5);
}

TEST_P(EncoderGolden, TwentyStepsLoseWhatPyTorchsLose) {
  const auto losses = [&](bool on_nvme, DType dtype = DType::kFloat32) {
    return GoldenLosses(model_, data_, weights_, {20, 2, on_nvme, dtype});
  };
  const std::vector<double> found = losses(true);
  ExpectGoldenLosses(found, golden_["losses"]);
  if (!IsFamily(GetParam())) return;
  EXPECT_EQ(losses(false), found);
}

TEST(MaskedHead, ABatchWithoutMaskedTokensLosesNothing) {
  const ModelConfig config = ConfigOf(GoldenEncoders()["bert_masked"]["config"]);
  FormulaWeights weights(config);
  GoldenTexts data(config.transformer);
  for (const torch::ScalarType dtype : {torch::kFloat32, torch::kBFloat16}) {
    const InMemoryModel model(*BuildTransformer(config.transformer), weights, dtype);
    Batch batch = *data.Get({0, 1});
    batch.labels.fill_(kIgnoredLabel);
    const Tensor loss = model.LossSum(batch);
    EXPECT_EQ(loss.item<float>(), 0);
    loss.backward();
    for (const auto& [name, parameter] : model.Parameters()) {
      if (!parameter.grad().defined()) continue;
      EXPECT_EQ(parameter.grad().to_dense().abs().max().item<float>(), 0) << name;
    }
  }
}

TEST(ClassifierOfDecoders, WithoutAPaddingTokenTheLastTokenCounts) {
  nlohmann::json config = GoldenEncoders()["gpt2_texts"]["config"];
  const auto scores = [&](const ModelConfig& of, const std::vector<int64_t>& samples) {
    FormulaWeights weights(of);
    GoldenTexts data(of.transformer);
    return InMemoryModel(*BuildTransformer(of.transformer), weights).Hidden(*data.Get(samples));
  };
  const Tensor with = scores(ConfigOf(config), {0, 1, 2, 3});
  config["pad_token_id"] = nullptr;
  const Tensor without = scores(ConfigOf(config), {0, 1, 2, 3});
  // The first text ends in the padding token.
  EXPECT_GT((with[0] - without[0]).abs().max().item<double>(), 0.1);
  EXPECT_TRUE(torch::equal(with.slice(0, 1), without.slice(0, 1)));
  EXPECT_TRUE(torch::allclose(scores(ConfigOf(config), {0})[0], without[0], 1e-5, 1e-5));
}

std::vector<std::string> GoldenEncoderNames() {
  std::vector<std::string> names;
  for (const auto& [name, golden] : GoldenEncoders().items()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Families, EncoderGolden, testing::ValuesIn(GoldenEncoderNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace spillway
