// Every family with an encoder and a decoder against transformers: the numbers of
// tests/golden/make_seq2seq.py, whose weights and texts follow the formulas here and there.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>

#include "engine/generation/beam_search.h"
#include "engine/generation/generator.h"
#include "engine/generation/sampling.h"
#include "engine/layers/transformer.h"
#include "engine/torch/forward_pass.h"
#include "tests/torch/formula_weights.h"
#include "tests/torch/golden_pairs.h"
#include "tests/torch/golden_run.h"
#include "tests/torch/in_memory_model.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

using torch::Tensor;

const nlohmann::json& GoldenSeq2Seq() {
  static const auto& golden = *new nlohmann::json(
      nlohmann::json::parse(FileText(SPILLWAY_SOURCE_DIR "/tests/golden/seq2seq.json")));
  return golden;
}

class Seq2SeqGolden : public testing::TestWithParam<std::string> {
 protected:
  const nlohmann::json& golden_ = GoldenSeq2Seq()[GetParam()];
  const ModelConfig config_ = ConfigOf(golden_["config"]);
  const Model model_ = *BuildTransformer(config_.transformer);
  FormulaWeights weights_{config_};
  GoldenPairs data_{config_.transformer};
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
  TransformerConfig config = config_.transformer, encoder = *config.encoder;
  config.attention_dropout = encoder.attention_dropout = 1e-9;  // keeps every probability
  config.encoder = std::make_shared<const TransformerConfig>(encoder);
  const InMemoryModel model(*BuildTransformer(config), weights_);
  const Batch batch = *data_.Get({0, 1, 2, 3});
  const Tensor loss = model.LossSum(batch) / batch.labels.ne(kIgnoredLabel).sum();
  loss.backward();
  ExpectGoldenGradients(model.Parameters(), golden_["gradients"]);
}

// The new tokens of one text.
std::vector<int64_t> Search(Generator& generator, const Tensor& source,
                            const TransformerConfig& config, const std::vector<int64_t>& read,
                            const SamplingOptions& options) {
  for (int row = 0; row < options.beams; ++row) generator.Restart(row);
  generator.Restart(0, source);
  std::vector<int64_t> tokens = {config.start_token};
  const auto append = [&](const std::vector<RowTokens>& rows) {
    auto logits = generator.Append(rows, /*more=*/false);
    TORCH_CHECK(logits.ok(), logits.status().ToString());
    return *std::move(logits);
  };
  if (options.beams == 1) {
    for (int64_t next = config.start_token; static_cast<int64_t>(tokens.size()) <= 10;) {
      const Tensor scores = ScoresOf(append({{0, {next}}})[0], tokens, 1, options, read);
      next = SampleToken(scores, options, 0);
      tokens.push_back(next);
      if (std::count(options.ends.begin(), options.ends.end(), next) > 0) break;
    }
    return {tokens.begin() + 1, tokens.end()};
  }
  BeamSearch search(tokens, options, read);
  std::vector<RowTokens> next = {{0, tokens}};
  // Rows take turns, so that no text is copied over one that goes on.
  for (int begin = static_cast<int>(options.beams); true; begin = begin == 0 ? options.beams : 0) {
    std::vector<Tensor> chances = append(next);
    for (Tensor& one : chances) one = torch::log_softmax(one, 0);
    const std::vector<int> parents = search.Step(chances);
    if (search.done()) break;
    std::vector<RowTokens> forked;
    for (size_t beam = 0; beam < parents.size(); ++beam) {
      const int row = begin + static_cast<int>(beam);
      generator.Restart(row);
      TORCH_CHECK(generator.Fork(next[parents[beam]].row, row).ok());
      forked.push_back({row, {search.running()[beam].back()}});
    }
    next = std::move(forked);
  }
  return {search.best().begin() + 1, search.best().end()};
}

TEST_P(Seq2SeqGolden, SearchesFindWhatTransformersDo) {
  std::vector<Tensor> sources;
  std::vector<std::vector<int64_t>> read;
  {
    ForwardPass pass(model_, &weights_, ForwardOptions());
    for (int64_t i = 0; i < 6; ++i) {
      Batch batch = *data_.Get({i});
      const auto found = pass.Run({batch});
      ASSERT_TRUE(found.ok()) << found.status();
      sources.push_back(found->front());
      read.emplace_back();
      if (config_.transformer.hears()) continue;
      const int64_t* ids = batch.inputs.const_data_ptr<int64_t>();
      read.back().assign(ids, ids + batch.inputs.numel());
    }
  }
  const std::map<std::string, EarlyStopping> stops = {{"false", EarlyStopping::kNo},
                                                      {"true", EarlyStopping::kYes},
                                                      {"\"never\"", EarlyStopping::kNever}};
  for (const auto& golden : golden_["generated"]) {
    SamplingOptions sampling;
    sampling.temperature = 0;
    sampling.ends = {7, 23, 41};
    sampling.max_tokens = 10;
    sampling.beams = golden["num_beams"];
    sampling.length_penalty = golden.value("length_penalty", 1.0);
    sampling.early_stopping =
        stops.at(golden.value("early_stopping", nlohmann::json(false)).dump());
    sampling.min_tokens = golden.value("min_new_tokens", 0);
    sampling.no_repeat_ngram = golden.value("no_repeat_ngram_size", 0);
    sampling.source_no_repeat_ngram = golden.value("encoder_no_repeat_ngram_size", 0);
    sampling.forced_first = golden.value("forced_bos_token_id", -1);
    sampling.forced_last = golden.value("forced_eos_token_id", -1);
    GeneratorOptions options;
    options.dtype = DType::kFloat32;
    options.positions = 20;
    options.rows = static_cast<int>(2 * sampling.beams);
    options.new_tokens = 10;
    options.source_positions = 14;
    options.source_width = 24;
    const auto generator = Generator::Create(model_, &weights_, options);
    ASSERT_TRUE(generator.ok()) << generator.status();
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(Search(**generator, sources[i], config_.transformer, read[i], sampling),
                golden["texts"][i].get<std::vector<int64_t>>())
          << golden << " source " << i;
    }
  }
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
  if (!IsFamily(GetParam())) return;
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
