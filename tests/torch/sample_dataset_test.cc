// Rows of whole samples: what they hold, that samples are as if alone, and the promises about bits
// where micro-batches differ in size.
#include "engine/datasets/sample_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "engine/data/char_tokenizer.h"
#include "engine/torch/init_source.h"
#include "tests/torch/rows_and_samples.h"
#include "tests/torch/same_bits.h"

namespace spillway {
namespace {

using torch::Tensor;

std::vector<int64_t> NumbersOf(const Tensor& tensor) {
  return {tensor.data_ptr<int64_t>(), tensor.data_ptr<int64_t>() + tensor.numel()};
}

// A dataset with all that it reads.
class OwnedRows : public Dataset {
 public:
  OwnedRows(const std::string& path, const Tokenizer& tokenizer, int64_t vocabulary,
            const std::string& scratch, SampleDatasetOptions options)
      : source_(Checked(TokenSource::Open({{path}, &tokenizer, scratch, vocabulary, 0}))),
        rows_(Checked(SampleRows::Lay(*source_, {options.seq_len, options.pack, scratch}))),
        data_(source_.get(), rows_.get(), options) {}

  // Sends this process a SIGTERM in the `calls`-th Get, once.
  void StopAt(int calls) { stop_at_ = calls; }
  const std::vector<int64_t>& lengths() const { return lengths_; }

  int64_t size() const override { return data_.size(); }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> rows) override {
    if (++calls_ == stop_at_) std::raise(SIGTERM);
    auto batch = data_.Get(rows);
    if (batch.ok()) lengths_.push_back(batch->inputs.size(1));
    return batch;
  }
  std::string fingerprint() const override { return data_.fingerprint(); }
  absl::StatusOr<std::optional<Batch>> Largest(int64_t count) override {
    return data_.Largest(count);
  }

 private:
  template <typename T>
  static std::unique_ptr<T> Checked(absl::StatusOr<std::unique_ptr<T>> made) {
    TORCH_CHECK(made.ok(), made.status().ToString());
    return *std::move(made);
  }

  const std::unique_ptr<TokenSource> source_;
  const std::unique_ptr<SampleRows> rows_;
  SampleDataset data_;
  std::vector<int64_t> lengths_;  // of the batches so far
  int calls_ = 0;
  int stop_at_ = -1;
};

class SampleDatasetTest : public testing::Test {
 protected:
  // Samples of 4, 6, 3 and 2 positions; the second's first label is the prompt's.
  OwnedRows Open(SampleDatasetOptions options) {
    const std::string path = dir_ / "data.jsonl";
    std::ofstream(path) << "{\"text\": \"abcd\"}\n{\"prompt\": \"pq\", \"completion\": \"rstu\"}\n"
                           "{\"text\": \"efg\"}\n{\"text\": \"hi\"}\n";
    return {path, *tokenizer_, 256, dir_.path(), options};
  }

  const ScratchDirectory dir_;
  const std::unique_ptr<Tokenizer> tokenizer_ = NewByteTokenizer();
};

TEST_F(SampleDatasetTest, PaddedToTheLongestOfTheMicroBatchRoundedUpToEight) {
  OwnedRows data = Open({.seq_len = 16});
  ASSERT_EQ(data.size(), 4);
  const Batch batch = *data.Get({1, 3});
  EXPECT_EQ(NumbersOf(batch.inputs), (std::vector<int64_t>{'p', 'q', 'r', 's', 't', 'u', 0, 0,  //
                                                           'h', 'i', 0, 0, 0, 0, 0, 0}));
  const int64_t no = kIgnoredLabel;
  EXPECT_EQ(NumbersOf(batch.labels), (std::vector<int64_t>{no, 'r', 's', 't', 'u', '\n', no, no,  //
                                                           'i', '\n', no, no, no, no, no, no}));
  EXPECT_TRUE(batch.texts.empty());
  // Not beyond what was asked for, and up to it where that is asked for.
  EXPECT_EQ((*Open({.seq_len = 7}).Get({0, 1})).inputs.size(1), 7);
  EXPECT_EQ((*Open({.seq_len = 30, .pad_to_max_length = true}).Get({0, 3})).inputs.size(1), 30);
}

TEST_F(SampleDatasetTest, PackedTextsFillTheirRows) {
  OwnedRows data = Open({.seq_len = 10, .pack = true});
  ASSERT_EQ(data.size(), 2);
  const Batch batch = *data.Get({0, 1});
  EXPECT_EQ(NumbersOf(batch.inputs),
            (std::vector<int64_t>{'a', 'b', 'c', 'd', 'p', 'q', 'r', 's', 't',
                                  'u',  //
                                  'e', 'f', 'g', 'h', 'i', 0,   0,   0,   0,   0}));
  const int64_t no = kIgnoredLabel;
  EXPECT_EQ(NumbersOf(batch.labels),
            (std::vector<int64_t>{'b', 'c', 'd',  '\n', no,   'r', 's', 't', 'u', '\n',  //
                                  'f', 'g', '\n', 'i',  '\n', no,  no,  no,  no,  no}));
  EXPECT_EQ(batch.texts, (std::vector<int64_t>{4, 6, 3, 2, 5}));
  EXPECT_NE(data.fingerprint(), Open({.seq_len = 10}).fingerprint());
}

TEST_F(SampleDatasetTest, TheLargestIsThatOfTheLongestRowThereIs) {
  EXPECT_EQ((**Open({.seq_len = 64}).Largest(3)).inputs.sizes(), (std::vector<int64_t>{3, 8}));
  EXPECT_EQ((**Open({.seq_len = 64, .evaluated_positions = 20}).Largest(1)).inputs.size(1), 24);
  EXPECT_EQ((**Open({.seq_len = 64, .pad_to_max_length = true}).Largest(1)).inputs.size(1), 64);
  const Batch packed = **Open({.seq_len = 12, .pack = true}).Largest(2);
  EXPECT_EQ(packed.inputs.size(1), 12);
  EXPECT_EQ(packed.texts, (std::vector<int64_t>{11, 1, 11, 1}));
}

// Weights large enough for attention to tell one token from another.
InMemoryModel WithWideWeights(ModelConfig config) {
  config.transformer.init_std = 0.3;
  const Model model = *BuildTransformer(config.transformer);
  InitSource init(model, 7);
  return InMemoryModel(model, init);
}

TEST(Gpt2Rows, SamplesInOneRowAreAsIfAlone) {
  for (const nlohmann::json& more : {nlohmann::json::object(), nlohmann::json{{"attn_pdrop", 1e-9}},
                                     nlohmann::json{{"tie_word_embeddings", false},
                                                    {"scale_attn_by_inverse_layer_idx", true}}}) {
    SCOPED_TRACE(more.dump());
    ExpectRowsToBeTheirSamples(WithWideWeights(SmallGpt2Config(61, 16, 24, 40, 2, 3, more)), 61);
  }
}

TEST(Gpt2Rows, TextsOfARowHaveDropoutOfTheirOwn) {
  const InMemoryModel model =
      WithWideWeights(SmallGpt2Config(61, 16, 24, 40, 1, 3, {{"attn_pdrop", 0.5}}));
  const Tensor text = torch::arange(1, 9);
  Batch twice{torch::cat({text, text}).unsqueeze(0), {}};
  twice.texts = {8, 8};
  const auto half = [&](const Tensor& x, int64_t i) { return x.narrow(1, 8 * i, 8); };
  const Tensor hidden = model.Hidden(twice);
  EXPECT_FALSE(half(hidden, 0).equal(half(hidden, 1)));
  EXPECT_TRUE(hidden.equal(model.Hidden(twice))) << "recomputed";
  const Tensor evaluated = model.Hidden(twice, /*training=*/false);
  EXPECT_LT((half(evaluated, 0) - half(evaluated, 1)).abs().max().item<double>(), 1e-5);
  // The first text's is that of a row which it has alone.
  const Tensor alone = model.Hidden(text.unsqueeze(0));
  EXPECT_LT((half(hidden, 0) - alone).abs().max().item<double>(), 1e-5);
}

TEST(Gpt2Rows, ATextThatDoesNotEndInItsRowThrows) {
  const InMemoryModel model = WithWideWeights(SmallGpt2Config(61, 16, 24, 40, 1, 3));
  Batch batch{torch::ones({2, 8}, torch::kInt64), {}};
  batch.texts = {5, 6, 5};
  EXPECT_THAT([&] { model.Hidden(batch); },
              testing::ThrowsMessage<c10::Error>(testing::HasSubstr("does not end in its row")));
}

// --- Whole runs.

class SampleBits : public SameBits {
 protected:
  // Short ones first, so that the first steps say little of how large others are.
  SampleBits() {
    std::mt19937 random(5);
    std::ofstream out(Path("data.jsonl"));
    for (int i = 0; i < 120; ++i) {
      const int most = i < 20 ? 6 : 45;
      const auto word = [&] {
        std::string text(1 + random() % most, ' ');
        for (char& c : text) c = static_cast<char>('a' + random() % 26);
        return text;
      };
      const std::string prompt = word(), completion = word();
      out << nlohmann::json({{"prompt", prompt}, {"completion", completion}}).dump() << "\n";
    }
  }

  std::unique_ptr<OwnedRows> Rows() const {
    return std::make_unique<OwnedRows>(Path("data.jsonl"), *tokenizer_, kVocabulary, dir_.path(),
                                       SampleDatasetOptions{.seq_len = kSeqLen, .pack = pack_});
  }
  std::unique_ptr<Dataset> NewData() const override { return Rows(); }

  static TrainOptions InOrder(TrainOptions options) {
    options.order = SampleOrder::kSequential;
    return options;
  }

  void CheckPlacements(DType dtype, double clip) {
    const RunOutcome plain = Run(InOrder(InMemory(dtype, clip)));
    EXPECT_LT(plain.result.last_loss, plain.result.first_loss);
    ExpectSameBits(plain, Run(InOrder(Nvme(dtype, clip))), "NVMe");
    TrainOptions spilled = InOrder(Nvme(dtype, clip));
    spilled.offload_activations = Offload::kNvme;
    spilled.recompute = Recompute::kAll;
    spilled.commit_every = 3;
    ExpectSameBits(plain, Run(spilled), "spilled, recomputed, committed");
    TrainOptions small = InOrder(Nvme(dtype, clip));
    SetSmallestBudgets(small);
    small.output.clear();
    const RunOutcome smallest = Run(small);
    ExpectSameBits(plain, smallest, "smallest budgets");
    EXPECT_LE(smallest.result.peak_device_bytes, small.device_memory_bytes);
  }

  // A signal after some steps commits; the run then goes on from there.
  void CheckResume(DType dtype) {
    const RunOutcome plain = Run(InMemory(dtype));
    TrainOptions options = Nvme(dtype);
    options.output = Path("stopped");
    const auto stopping = Rows();
    stopping->StopAt(5 * options.accumulate);
    const RunOutcome stopped = TrainToTheEnd(model_, *stopping, nullptr, nullptr, options);
    ASSERT_EQ(stopped.result.end, TrainResult::End::kStopped);
    ASSERT_LT(stopped.result.step, kSteps);
    options.resume = true;
    ExpectSameBits(plain, Run(options), "resumed");
  }

  bool pack_ = false;
  const std::unique_ptr<Tokenizer> tokenizer_ = NewCharTokenizer([] {
    std::vector<uint32_t> letters = {'\n'};
    for (uint32_t c = 'a'; c <= 'z'; ++c) letters.push_back(c);
    return letters;
  }());
};

class PackedBits : public SampleBits {
 protected:
  PackedBits() { pack_ = true; }
};

TEST_F(SampleBits, PaddedAnywhereBf16) { CheckPlacements(DType::kBFloat16, 0); }
TEST_F(SampleBits, PaddedAnywhereFp32Clipped) { CheckPlacements(DType::kFloat32, 0.5); }
TEST_F(SampleBits, PaddedResumed) { CheckResume(DType::kBFloat16); }
TEST_F(PackedBits, AnywhereBf16) { CheckPlacements(DType::kBFloat16, 0); }
TEST_F(PackedBits, AnywhereFp32Clipped) { CheckPlacements(DType::kFloat32, 0.5); }
TEST_F(PackedBits, Resumed) { CheckResume(DType::kFloat16); }

TEST_F(SampleBits, MicroBatchesDifferInLengthAndEvaluationIsTheSumOfItsRows) {
  const auto data = Rows(), evaluation = Rows();
  TrainOptions options = InOrder(InMemory(DType::kFloat32));
  options.output = Path("evaluated");
  options.steps = 8;
  options.eval_every = 4;
  const RunOutcome outcome = TrainToTheEnd(model_, *data, evaluation.get(), nullptr, options);
  EXPECT_THAT(data->lengths(), testing::Contains(16));
  EXPECT_THAT(data->lengths(), testing::Contains(kSeqLen));
  ASSERT_EQ(outcome.evaluations.size(), 3u);  // before step 1, too
  int64_t labels = 0;
  const auto counted = Rows();
  for (int64_t row = 0; row < counted->size(); ++row) {
    labels += counted->Get({row})->labels.ne(kIgnoredLabel).sum().item<int64_t>();
  }
  EXPECT_EQ(outcome.evaluations[0]["labels"], labels);
}

// Windows of one text each, which is said or not.
class SaidTexts : public MadeTokens {
 public:
  SaidTexts() : MadeTokens(50, kSeqLen, kVocabulary) {}
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    auto batch = MadeTokens::Get(samples);
    batch->texts.assign(samples.size(), kSeqLen);
    return batch;
  }
};

class FullWindows : public SameBits {
 protected:
  std::unique_ptr<Dataset> NewData() const override {
    return said_ ? std::make_unique<SaidTexts>() : SameBits::NewData();
  }
  bool said_ = false;
};

TEST_F(FullWindows, OfOneTextHaveTheBitsOfAnyWindow) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    said_ = false;
    const RunOutcome windows = Run(InMemory(dtype));
    said_ = true;
    ExpectSameBits(windows, Run(InMemory(dtype)), "said");
  }
}

}  // namespace
}  // namespace spillway
