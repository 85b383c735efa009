#include "engine/datasets/masked_dataset.h"

#include <gtest/gtest.h>

#include "io/file_system.h"
#include "tests/engine/data/masking_testing.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

class MaskedDatasetTest : public testing::Test {
 protected:
  MaskedDatasetTest() {
    config_.vocabulary = 259;
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      lines += absl::StrCat("{\"text\": \"",
                            std::string(20 + i % 7, static_cast<char>('a' + i % 26)), "\"}\n");
    }
    const std::string path = dir_ / "a.jsonl";
    EXPECT_TRUE(WriteFileAtomically(FileSystem::Real(), path, lines).ok());
    TokenSourceOptions options;
    options.files = {path};
    options.tokenizer = tokenizer_.get();
    options.begins_lines = options.ends_lines = false;
    options.scratch_directory = dir_ / "";
    options.vocabulary = config_.vocabulary;
    source_ = *TokenSource::Open(options);
    texts_ = *MaskedTexts::Lay(source_.get(), {.tokenizer = tokenizer_.get(),
                                               .seq_len = 64,
                                               .config = &config_,
                                               .lines = true,
                                               .scratch_directory = dir_ / ""});
    data_ = std::make_unique<MaskedDataset>(
        texts_.get(), &config_,
        MaskedDatasetOptions{.seq_len = 64, .rule = {0.3, 42, kTestMask, 259}});
  }

  const ScratchDirectory dir_;
  TransformerConfig config_;
  const std::unique_ptr<Tokenizer> tokenizer_ = MaskingTokenizer();
  std::unique_ptr<TokenSource> source_;
  std::unique_ptr<MaskedTexts> texts_;
  std::unique_ptr<MaskedDataset> data_;
};

TEST_F(MaskedDatasetTest, LabelsAreTheTokensThatWereThere) {
  const Batch batch = *data_->Get({1, 6, 30});
  EXPECT_EQ(batch.inputs.size(1), 32);  // the longest has 26 tokens and two around them
  int64_t labelled = 0, masked = 0;
  for (int64_t row = 0; row < 3; ++row) {
    const std::vector<int64_t> whole = texts_->Get(std::vector{1, 6, 30}[row])->encoded.tokens;
    for (int64_t i = 0; i < 32; ++i) {
      const int64_t label = batch.labels[row][i].item<int64_t>();
      const int64_t input = batch.inputs[row][i].item<int64_t>();
      const bool inside = i > 0 && i + 1 < static_cast<int64_t>(whole.size());
      if (label == kIgnoredLabel) {
        EXPECT_EQ(input, i < static_cast<int64_t>(whole.size()) ? whole[i] : 0);
        continue;
      }
      EXPECT_TRUE(inside);
      EXPECT_EQ(label, whole[i]);
      ++labelled;
      masked += input == kTestMask;
    }
  }
  EXPECT_GT(labelled, 5);
  EXPECT_GT(masked, 2);
}

TEST_F(MaskedDatasetTest, ATextIsMaskedAnewInEveryEpochAndAlikeWhereItIsEvaluated) {
  const auto labels = [](const absl::StatusOr<Batch>& batch) { return batch->labels; };
  EXPECT_TRUE(torch::equal(labels(data_->Get({3, 4})), labels(data_->Get({3, 4}))));
  EXPECT_FALSE(torch::equal(labels(data_->Draw({3, 4}, 0)), labels(data_->Draw({3, 4}, 40))));
  // However a step's samples are dealt to ranks and micro-batches.
  const Batch whole = *data_->Draw({3, 10, 17, 24}, 80);
  for (int64_t i = 0; i < 4; ++i) {
    const Batch alone = *data_->Draw({std::vector<int64_t>{3, 10, 17, 24}[i]}, 80 + i);
    const int64_t length = alone.inputs.size(1);
    EXPECT_TRUE(torch::equal(alone.inputs[0], whole.inputs[i].narrow(0, 0, length)));
    EXPECT_TRUE(torch::equal(alone.labels[0], whole.labels[i].narrow(0, 0, length)));
  }
}

TEST_F(MaskedDatasetTest, TheLargestBatchHasMoreLabelsThanAny) {
  const Batch largest = **data_->Largest(4);
  EXPECT_EQ(largest.inputs.size(1), 32);
  const int64_t most = largest.labels.ne(kIgnoredLabel).sum().item<int64_t>();
  EXPECT_EQ(most, MostMasked(4 * 32, 0.3));
  for (int64_t draw = 0; draw < 200; ++draw) {
    const Batch batch = *data_->Draw({5, 6, 12, 13}, draw * 4);
    EXPECT_LE(batch.labels.ne(kIgnoredLabel).sum().item<int64_t>(), most);
  }
}

}  // namespace
}  // namespace spillway
