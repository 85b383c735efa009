// Several texts at a time: each as transformers continues it and as it goes on alone, to the bit,
// wherever weights and key-value caches live. Golden data by tests/golden/make_batches.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/generation/generator.h"
#include "engine/generation/kept_positions.h"
#include "engine/generation/sampling.h"
#include "engine/layers/transformer.h"
#include "engine/machine/memory_limits.h"
#include "io/base/format_bytes.h"
#include "tests/device/test_device.h"
#include "tests/scratch_directory.h"
#include "tests/torch/formula_weights.h"
#include "tests/torch/training_run.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

using torch::Tensor;
using TokenList = std::vector<int64_t>;

const nlohmann::json& GoldenBatches() {
  static const auto& golden = *new nlohmann::json(
      nlohmann::json::parse(FileText(SPILLWAY_SOURCE_DIR "/tests/golden/batches.json")));
  return golden;
}

SamplingOptions SettingsOf(const nlohmann::json& settings) {
  SamplingOptions options;
  options.temperature = settings.value("temperature", 0.0);
  options.top_k = settings.value("top_k", int64_t{0});
  options.top_p = settings.value("top_p", 1.0);
  options.repetition_penalty = settings.value("repetition_penalty", 1.0);
  options.no_repeat_ngram = settings.value("no_repeat_ngram_size", int64_t{0});
  options.min_tokens = settings.value("min_new_tokens", int64_t{0});
  options.min_length = settings.value("min_length", int64_t{0});
  options.ends = settings.value("eos_token_id", TokenList());
  return options;
}

// A text, and the logits of each of its new tokens.
struct Row {
  TokenList tokens;
  size_t prompt = 0;
  std::vector<Tensor> logits;
  bool ended = false;

  TokenList added() const { return TokenList(tokens.begin() + prompt, tokens.end()); }
};

// As many at a time as the generator has rows; the next begins where one ended.
std::vector<Row> ContinueAll(Generator& generator, int rows, const std::vector<TokenList>& prompts,
                             size_t count, const SamplingOptions& options) {
  std::vector<Row> texts(prompts.size());
  std::vector<int> in_row(rows, -1);
  size_t begun = 0;
  while (true) {
    std::vector<RowTokens> pieces;
    for (int row = 0; row < rows; ++row) {
      if (in_row[row] < 0 && begun < prompts.size()) {
        in_row[row] = static_cast<int>(begun);
        texts[begun].tokens = prompts[begun];
        texts[begun].prompt = prompts[begun].size();
        generator.Restart(row);
        pieces.push_back({row, prompts[begun++]});
      } else if (in_row[row] >= 0) {
        pieces.push_back({row, {texts[in_row[row]].tokens.back()}});
      }
    }
    if (pieces.empty()) return texts;
    const auto logits = generator.Append(pieces, true);
    TORCH_CHECK(logits.ok(), logits.status().ToString());
    for (size_t i = 0; i < pieces.size(); ++i) {
      int& number = in_row[pieces[i].row];
      Row& text = texts[number];
      const Tensor scores = ScoresOf((*logits)[i], text.tokens, text.prompt, options);
      const int64_t token = SampleToken(scores, options, text.tokens.size() - text.prompt, number);
      text.tokens.push_back(token);
      text.logits.push_back((*logits)[i].clone());
      text.ended = std::count(options.ends.begin(), options.ends.end(), token) > 0;
      if (text.ended || text.tokens.size() - text.prompt == count) number = -1;
    }
  }
}

class TextBatch : public testing::Test {
 protected:
  void Use(const nlohmann::json& keys) {
    config_ = ConfigOf(keys);
    model_ = *BuildTransformer(config_.transformer);
    weights_ = std::make_unique<FormulaWeights>(config_);
  }

  GeneratorOptions Options(int rows, DType dtype = DType::kFloat32) {
    GeneratorOptions options;
    options.dtype = dtype;
    options.device_memory_bytes = options.host_memory_bytes = 64 * kMiB;
    options.positions = config_.transformer.longest_sequence();
    options.rows = rows;
    options.prompt_tokens = 11;
    options.new_tokens = 48;
    return options;
  }

  std::unique_ptr<Generator> Start(const GeneratorOptions& options) {
    auto generator = Generator::Create(model_, weights_.get(), options);
    TORCH_CHECK(generator.ok(), generator.status().ToString());
    return *std::move(generator);
  }

  ModelConfig config_;
  Model model_;
  std::unique_ptr<FormulaWeights> weights_;
};

TEST_F(TextBatch, PromptsOfDifferentLengthsGoOnAsTransformersDoes) {
  ASSERT_EQ(GoldenBatches()["batches"].size(), 21);
  for (const auto& golden : GoldenBatches()["batches"]) {
    SCOPED_TRACE(absl::StrCat(golden["model"].dump(), golden["settings"].dump()));
    Use(golden["config"]);
    const std::vector<TokenList> prompts = golden["prompts"], expected = golden["tokens"];
    // Four at a time, and two, of which the next come when the first have ended.
    for (const int rows : {4, 2}) {
      const auto generator = Start(Options(rows));
      const auto texts = ContinueAll(*generator, rows, prompts, 48, SettingsOf(golden["settings"]));
      for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(texts[i].added(), expected[i]) << i;
    }
  }
}

// The bits of both, row by row.
void ExpectSame(const std::vector<Row>& found, const std::vector<Row>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].tokens, expected[i].tokens) << i;
    for (size_t t = 0; t < found[i].logits.size(); ++t) {
      ASSERT_TRUE(torch::equal(found[i].logits[t], expected[i].logits[t])) << i << " at " << t;
    }
  }
}

TEST_F(TextBatch, ARowsBitsAreThoseThatItHasAlone) {
  const nlohmann::json& golden = GoldenBatches()["batches"];
  const std::vector<TokenList> prompts = golden[0]["prompts"];
  for (const char* name : {"gpt2", "mistral"}) {
    for (const auto& one : golden) {
      if (one["model"] == name) Use(one["config"]);
    }
    // Drawn ones, too: a draw has the number of its text.
    for (const double temperature : {0.0, 1.2}) {
      SamplingOptions options;
      options.temperature = temperature;
      options.ends = {40, 17};
      const auto alone = ContinueAll(*Start(Options(1, DType::kBFloat16)), 1, prompts, 30, options);
      for (const int rows : {2, 3, 4}) {
        const auto generator = Start(Options(rows, DType::kBFloat16));
        ExpectSame(ContinueAll(*generator, rows, prompts, 30, options), alone);
      }
    }
  }
}

// The swap paths, and how often their files (which have lost their names) are open here.
std::vector<std::string> NamelessFiles(const std::string& below) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (absl::StartsWith(target, below) && absl::StrContains(target, "/kept (deleted)")) {
      found.push_back(entry.path().string());
    }
  }
  return found;
}

class TextCaches : public TextBatch {
 protected:
  void SetUp() override {
    // Caches of 4 texts of 300 positions, 1.2 MiB, beside a few KiB of weights.
    Use({{"model_type", "llama"},
         {"vocab_size", 61},
         {"hidden_size", 32},
         {"num_hidden_layers", 2},
         {"num_attention_heads", 4},
         {"num_key_value_heads", 4},
         {"intermediate_size", 40},
         {"max_position_embeddings", 600}});
    for (const char* name : {"a", "b"}) {
      std::filesystem::create_directory(dir_ / name);
      swap_.push_back(dir_ / name);
    }
  }

  GeneratorOptions LongOptions() {
    GeneratorOptions options = Options(4);
    options.new_tokens = 589;
    return options;
  }

  // Less and less of both budgets until the caches live there.
  std::unique_ptr<Generator> StartIn(Tier tier, GeneratorOptions options) {
    const uint64_t all = 4 * 2 * 600 * 64 * sizeof(float);
    if (tier == Tier::kNvme) options.host_memory_bytes = all - 1;
    for (options.device_memory_bytes = 16 * kMiB; options.device_memory_bytes > 4 * kMiB;
         options.device_memory_bytes -= kMiB / 2) {
      auto generator = Generator::Create(model_, weights_.get(), options);
      TORCH_CHECK(generator.ok(), generator.status().ToString());
      EXPECT_EQ((*generator)->kept_bytes(), all);
      if ((*generator)->kept_tier() == tier) return *std::move(generator);
      EXPECT_EQ((*generator)->kept_tier(), Tier::kDevice);
    }
    return nullptr;
  }

  const std::vector<TokenList> prompts_ = GoldenBatches()["batches"][0]["prompts"];
  const ScratchDirectory dir_;
  std::vector<std::string> swap_;
};

TEST_F(TextCaches, HoldTheSameBitsInDeviceMemoryInHostMemoryAndInFiles) {
  SamplingOptions greedy;
  greedy.temperature = 0;
  GeneratorOptions options = LongOptions();
  options.swap_paths = swap_;
  const auto first = Start(options);
  EXPECT_EQ(first->kept_tier(), Tier::kDevice);
  const auto expected = ContinueAll(*first, 4, prompts_, 150, greedy);
  for (const bool separate : {false, true}) {
    TestDevice device({});
    if (separate) options.place.device = &device;
    for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kNvme}) {
      SCOPED_TRACE(absl::StrCat(separate, " ", std::string(TierName(tier))));
      const auto generator = StartIn(tier, options);
      ASSERT_NE(generator, nullptr);
      EXPECT_EQ(NamelessFiles(dir_.path()).size(), tier == Tier::kNvme ? 2 : 0);
      ExpectSame(ContinueAll(*generator, 4, prompts_, 150, greedy), expected);
      EXPECT_EQ(generator->kept_io().read_bytes > 0, tier == Tier::kNvme);
      for (const std::string& path : swap_) EXPECT_TRUE(std::filesystem::is_empty(path));
    }
  }
}

TEST_F(TextCaches, OfATextThatOutgrowsItsPositionsBeginAnewInFiles) {
  SamplingOptions greedy;
  greedy.temperature = 0;
  GeneratorOptions options = LongOptions();
  options.swap_paths = swap_;
  options.positions = 200;  // as a model with fewer of them
  const auto expected = ContinueAll(*Start(options), 4, prompts_, 250, greedy);
  options.host_memory_bytes = 390 << 10;  // the caches take 400
  std::unique_ptr<Generator> generator;
  for (options.device_memory_bytes = 6 * kMiB;
       !generator || generator->kept_tier() == Tier::kDevice;
       options.device_memory_bytes -= kMiB / 8) {
    generator = Start(options);
  }
  ASSERT_EQ(generator->kept_tier(), Tier::kNvme);
  ExpectSame(ContinueAll(*generator, 4, prompts_, 250, greedy), expected);
}

TEST_F(TextCaches, ThatAFileHasChangedAreFound) {
  GeneratorOptions options = LongOptions();
  options.swap_paths = {swap_[0]};
  const auto generator = StartIn(Tier::kNvme, options);
  ASSERT_NE(generator, nullptr);
  ASSERT_TRUE(generator->Append({{0, {1, 2, 3}}}, false).ok());
  ASSERT_TRUE(generator->Append({{0, {4}}}, false).ok());
  const std::vector<std::string> files = NamelessFiles(dir_.path());
  ASSERT_EQ(files.size(), 1);
  const auto file = std::fopen(files[0].c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(std::fseek(file, 3 * 64 * sizeof(float) + 5, SEEK_SET), 0);
  std::fputc(0x55, file);
  std::fclose(file);
  const auto logits = generator->Append({{0, {5}}}, false);
  EXPECT_EQ(ExitCodeOf(logits.status()), 4) << logits.status();
  EXPECT_THAT(logits.status().message(), testing::HasSubstr("key-value cache"));
}

TEST_F(TextCaches, ThatFitNowhereAreSaidWithWhatWouldDo) {
  GeneratorOptions options = LongOptions();
  options.device_memory_bytes = 1 << 20;
  options.host_memory_bytes = 1 << 20;
  const auto refused = Generator::Create(model_, weights_.get(), options);
  ASSERT_EQ(ExitCodeOf(refused.status()), 3) << refused.status();
  EXPECT_THAT(refused.status().message(),
              testing::AllOf(testing::HasSubstr("key-value caches of 4 texts of 600 positions"),
                             testing::HasSubstr("--swap PATH")));
}

TEST(Sampling, ScoresAreThoseOfTransformersProcessors) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (const auto& golden : GoldenBatches()["scores"]) {
    SCOPED_TRACE(golden["settings"].dump());
    const TokenList text = golden["text"];
    const std::vector<float> logits = golden["logits"];
    const Tensor scores = ScoresOf(torch::tensor(logits), text, golden["prompt_tokens"],
                                   SettingsOf(golden["settings"]));
    std::vector<float> expected;
    for (const auto& score : golden["scores"]) {
      expected.push_back(score.is_null() ? kNone : score.get<float>());
    }
    EXPECT_TRUE(torch::equal(scores, torch::tensor(expected))) << scores;
  }
}

}  // namespace
}  // namespace spillway
