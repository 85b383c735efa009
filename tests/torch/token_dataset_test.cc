// From .jsonl with prompts to labels, and what a run makes of windows without any.
#include "engine/datasets/token_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/scratch_directory.h"
#include "tests/torch/training_run.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

class TokenDatasetTest : public testing::Test {
 protected:
  std::unique_ptr<TokenSource> Source(const std::string& jsonl, int64_t window_tokens) {
    const std::string path = dir_ / "data.jsonl";
    std::ofstream(path) << jsonl;
    auto source = TokenSource::Open({{path}, tokenizer_.get(), dir_.path(), 256, window_tokens});
    TORCH_CHECK(source.ok(), source.status().ToString());
    return *std::move(source);
  }

  // Two steps of one window each.
  RunOutcome Run(TokenDataset& data, TokenDataset* evaluation, DType dtype, double clip) {
    const ModelConfig config = SmallGpt2Config(256, 16, 16, 64, 1, 2, Dropouts(0.1));
    const Model model = *BuildTransformer(config.transformer);
    TrainOptions options;
    options.output = dir_ / absl::StrCat("run-", std::string(DTypeName(dtype)), "-", clip > 0);
    options.device_memory_bytes = options.host_memory_bytes = uint64_t{64} << 20;
    options.threads = 1;
    options.dtype = dtype;
    options.order = SampleOrder::kSequential;
    options.steps = 2;
    options.optimizer.learning_rate = 0.01;
    options.clip = clip;
    return TrainToTheEnd(model, data, evaluation, nullptr, options);
  }

  const ScratchDirectory dir_;
  const std::unique_ptr<Tokenizer> tokenizer_ = NewByteTokenizer();
};

TEST_F(TokenDatasetTest, LabelsOfPromptsAreIgnored) {
  const auto source =
      Source("{\"prompt\": \"ab\", \"completion\": \"cd\"}\n{\"text\": \"ef\"}\n", 7);
  TokenDataset data(source.get(), 7);
  ASSERT_EQ(data.size(), 1);
  const auto batch = data.Get({0});
  ASSERT_TRUE(batch.ok()) << batch.status();
  const auto values = [](const torch::Tensor& tensor) {
    return std::vector<int64_t>(tensor.data_ptr<int64_t>(),
                                tensor.data_ptr<int64_t>() + tensor.numel());
  };
  EXPECT_EQ(values(batch->inputs), (std::vector<int64_t>{'a', 'b', 'c', 'd', '\n', 'e', 'f'}));
  // The first completion token is learnt from the whole prompt.
  EXPECT_EQ(values(batch->labels),
            (std::vector<int64_t>{kIgnoredLabel, 'c', 'd', '\n', 'e', 'f', '\n'}));
}

TEST_F(TokenDatasetTest, AStepWithoutLabelsHasNoLossAndIsSkipped) {
  // The first window lies within the prompt, the second has labels.
  const std::string prompt(20, 'p');
  const auto source =
      Source(absl::StrCat("{\"prompt\": \"", prompt, "\", \"completion\": \"completion\"}\n"), 8);
  TokenDataset data(source.get(), 8);
  ASSERT_GE(data.size(), 3);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const double clip : {0.0, 1.0}) {
      SCOPED_TRACE(absl::StrCat(std::string(DTypeName(dtype)), " clip ", clip));
      const RunOutcome outcome = Run(data, nullptr, dtype, clip);
      ASSERT_EQ(outcome.rows.size(), 2u);
      EXPECT_TRUE(outcome.rows[0]["loss"].is_null());
      EXPECT_EQ(outcome.rows[0]["tokens"], 0);
      EXPECT_TRUE(outcome.rows[0]["grad_norm"].is_null());
      EXPECT_EQ(outcome.rows[0]["skipped"], true);
      EXPECT_TRUE(outcome.rows[1]["loss"].is_null()) << "tokens 8 to 16 are the prompt's too";
      EXPECT_FALSE(outcome.result.last_loss.has_value());
    }
  }
}

TEST_F(TokenDatasetTest, LabelsCountWhereThereAreSome) {
  const auto source = Source("{\"prompt\": \"0123456\", \"completion\": \"9999999999\"}\n", 8);
  TokenDataset data(source.get(), 8);
  const RunOutcome outcome = Run(data, &data, DType::kFloat32, 1.0);
  EXPECT_EQ(outcome.rows[0]["tokens"], 8);
  EXPECT_EQ(outcome.rows[0]["labels"], 2) << "tokens 7 and 8";
  EXPECT_EQ(outcome.rows[1]["labels"], 8);
  EXPECT_TRUE(std::isfinite(outcome.rows[0]["loss"].get<double>()));
  ASSERT_FALSE(outcome.evaluations.empty());
  EXPECT_EQ(outcome.evaluations[0]["labels"], 10);
}

}  // namespace
}  // namespace spillway
