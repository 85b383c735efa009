// Names, shapes and dtypes of GPT-2 files as they are found in the wild.
#include "engine/weights/named_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/families/model_config.h"
#include "engine/layers/transformer.h"
#include "engine/torch/init_source.h"
#include "engine/weights/safetensors_model.h"
#include "engine/weights/safetensors_writer.h"
#include "tests/scratch_directory.h"
#include "tests/transformer_config.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct FileTensor {
  std::vector<uint64_t> shape;
  std::vector<float> values;
};
using FakeFile = std::map<std::string, FileTensor>;

class NamedWeights : public testing::Test {
 protected:
  NamedWeights() {
    const Model model = *BuildTransformer(config_.transformer);
    InitSource init(model, 5);
    const auto add = [&](const std::vector<ParameterSpec>& specs) {
      for (const ParameterSpec& spec : specs) {
        FileTensor& tensor = file_[spec.name];
        tensor.shape.assign(spec.shape.begin(), spec.shape.end());
        tensor.values.resize(torch::zeros(spec.shape).numel());
        EXPECT_TRUE(init.Read(spec.name, 0, tensor.values.size(), tensor.values.data()).ok());
      }
    };
    for (const auto& unit : model.units) add(unit->parameters());
    add(model.loss->parameters());
  }

  absl::StatusOr<std::unique_ptr<WeightSource>> Open(const FakeFile& file,
                                                     DType dtype = DType::kFloat32) {
    std::vector<ExportTensor> tensors;
    for (const auto& [name, tensor] : file) tensors.push_back({name, dtype, tensor.shape});
    auto writer = *SafetensorsWriter::Create(dir_ / "model.safetensors", tensors);
    for (const auto& [name, tensor] : file) {
      EXPECT_TRUE(writer->AppendFp32(tensor.values.data(), tensor.values.size()).ok());
    }
    EXPECT_TRUE(writer->Finish().ok());
    model_ = std::move(*SafetensorsModel::Open(dir_.path()));
    return OpenNamedWeights(TensorNamesOf(config_), model_.get());
  }

  // Every parameter, read in pieces, has its values, rounded by at most `tolerance`.
  void ExpectValues(WeightSource& source, double tolerance = 0) {
    for (const auto& [name, tensor] : file_) {
      std::vector<float> read(tensor.values.size());
      const uint64_t half = read.size() / 2;
      ASSERT_TRUE(source.Read(name, 0, half, read.data()).ok()) << name;
      ASSERT_TRUE(source.Read(name, half, read.size() - half, read.data() + half).ok());
      for (size_t i = 0; i < read.size(); ++i) {
        ASSERT_NEAR(read[i], tensor.values[i], tolerance * std::abs(tensor.values[i])) << name;
      }
    }
  }

  std::string Refusal(const FakeFile& file) {
    const auto source = Open(file);
    EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(source.status().message());
  }

  FakeFile WithoutPrefix() const {
    FakeFile out;
    for (const auto& [name, tensor] : file_) {
      out[std::string(absl::StripPrefix(name, "transformer."))] = tensor;
    }
    return out;
  }

  ModelConfig config_ = SmallGpt2Config(11, 6, 8, 12, 2, 2);
  FakeFile file_;  // as transformers writes it
  ScratchDirectory dir_;
  std::unique_ptr<SafetensorsModel> model_;
};

TEST_F(NamedWeights, AreReadInEveryFloatingDtype) {
  ExpectValues(**Open(file_));
  ExpectValues(**Open(file_, DType::kBFloat16), 1.0 / 256);
  ExpectValues(**Open(file_, DType::kFloat16), 1.0 / 512);
}

TEST_F(NamedWeights, HubFilesHaveNoPrefixAndMaskBuffers) {
  FakeFile file = WithoutPrefix();
  for (const char* layer : {"h.0", "h.1"}) {
    file[absl::StrCat(layer, ".attn.bias")] = {{1, 1, 6, 6}, std::vector<float>(36, 1)};
    file[absl::StrCat(layer, ".attn.masked_bias")] = {{}, {-1e4f}};
  }
  ExpectValues(**Open(file));
}

TEST_F(NamedWeights, ATiedHeadMayBeRepeatedOrStandInForTheEmbedding) {
  FakeFile file = file_;
  file["lm_head.weight"] = file["transformer.wte.weight"];
  ExpectValues(**Open(file));
  file.erase("transformer.wte.weight");
  ExpectValues(**Open(file));
}

TEST_F(NamedWeights, ATiedHeadThatDiffersIsRefused) {
  FakeFile file = file_;
  file["lm_head.weight"] = file["transformer.wte.weight"];
  file["lm_head.weight"].values.back() += 1;
  // By whoever reads the part that does.
  const auto source = Open(file);
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<float> values(88);
  EXPECT_EQ((*source)->Read("transformer.wte.weight", 0, 87, values.data()), absl::OkStatus());
  for (uint64_t first : {0, 80, 87}) {
    const absl::Status status =
        (*source)->Read("transformer.wte.weight", first, 88 - first, values.data());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("lm_head.weight"), HasSubstr("tie_word_embeddings")));
  }
}

TEST_F(NamedWeights, AnUntiedHeadIsItsOwn) {
  config_ = SmallGpt2Config(11, 6, 8, 12, 2, 2, {{"tie_word_embeddings", false}});
  EXPECT_THAT(Refusal(file_), AllOf(HasSubstr("lm_head.weight [11, 8]"), HasSubstr("missing")));
  file_["lm_head.weight"] = {{11, 8}, std::vector<float>(88, 3)};
  ExpectValues(**Open(file_));
}

TEST_F(NamedWeights, NamesMissingUnexpectedAndMisshapenTensors) {
  FakeFile missing = file_;
  missing.erase("transformer.h.1.mlp.c_fc.bias");
  EXPECT_THAT(Refusal(missing), AllOf(HasSubstr("transformer.h.1.mlp.c_fc.bias [12]"),
                                      HasSubstr("missing (1 of 28 are)")));
  FakeFile unexpected = file_;
  unexpected["transformer.h.2.ln_1.bias"] = {{8}, std::vector<float>(8)};
  EXPECT_THAT(Refusal(unexpected), HasSubstr("transformer.h.2.ln_1.bias [8]"));
  FakeFile misshapen = file_;
  misshapen["transformer.wpe.weight"] = {{7, 8}, std::vector<float>(56)};
  EXPECT_THAT(Refusal(misshapen),
              AllOf(HasSubstr("transformer.wpe.weight"), HasSubstr("[7, 8]"), HasSubstr("[6, 8]")));
  FakeFile twice = file_;
  twice["wpe.weight"] = twice["transformer.wpe.weight"];
  EXPECT_THAT(Refusal(twice), HasSubstr("same parameter"));
}

TEST_F(NamedWeights, ATensorOfAnotherSizeIsBegunAnewWhereThatIsAskedFor) {
  const Model model = *BuildTransformer(config_.transformer);
  InitSource initial(model, 9);
  TensorNames names = TensorNamesOf(config_);
  FakeFile file = file_;
  const std::pair<const char*, std::vector<uint64_t>> others[] = {
      {"transformer.wpe.weight", {3, 8}},                // fewer rows
      {"transformer.h.0.mlp.c_fc.bias", {24}},           // more elements
      {"transformer.h.1.ln_1.weight", {1, 8}},           // another rank
      {"transformer.h.1.attn.c_proj.weight", {4, 16}}};  // as many elements
  for (const auto& [name, shape] : others) {
    uint64_t count = 1;
    for (const uint64_t size : shape) count *= size;
    file[name] = {shape, std::vector<float>(count, 7)};
  }
  ASSERT_FALSE(Open(file).ok());
  const auto refused = OpenNamedWeights(names, model_.get(), &initial);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("has shape"), HasSubstr("--ignore-mismatched-sizes")));
  names.ignores_sizes = true;
  const auto source = OpenNamedWeights(names, model_.get(), &initial);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto there = ParametersOfTensors(names, *model_);
  for (const auto& [name, tensor] : file_) {
    std::vector<float> found(tensor.values.size()), expected = tensor.values;
    const bool replaced = std::any_of(std::begin(others), std::end(others),
                                      [&](const auto& other) { return other.first == name; });
    EXPECT_EQ(there.contains(name), !replaced) << name;
    if (replaced) {
      ASSERT_TRUE(initial.Read(name, 0, expected.size(), expected.data()).ok());
      EXPECT_FALSE((*source)->Stored(name)) << name;
    }
    ASSERT_TRUE((*source)->Read(name, 0, found.size(), found.data()).ok());
    EXPECT_EQ(found, expected) << name;
  }
}

TEST_F(NamedWeights, RowsOfNewTokensAreTheMeanOfTheOthers) {
  const char* const kTokens = "transformer.wte.weight";
  for (const bool stands_in : {false, true}) {
    for (const uint64_t rows : {1, 7, 10}) {
      FakeFile file = file_;
      FileTensor embedding = file_[kTokens];
      embedding.shape[0] = rows;
      embedding.values.resize(rows * 8);
      file.erase(kTokens);
      file[stands_in ? "lm_head.weight" : kTokens] = embedding;
      (void)Open(file);  // writes the file, and refuses it
      TensorNames names = TensorNamesOf(config_);
      names.grown = ParametersByToken(config_.transformer);
      const auto source = OpenNamedWeights(names, model_.get());
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_FALSE((*source)->Stored(kTokens));
      std::vector<float> expected = embedding.values;
      for (uint64_t i = rows * 8; i < 11 * 8; ++i) {
        double sum = 0;
        for (uint64_t row = 0; row < rows; ++row) sum += embedding.values[row * 8 + i % 8];
        expected.push_back(static_cast<float>(sum / static_cast<double>(rows)));
      }
      // In pieces that begin and end in the file's rows, behind them, and across.
      for (const auto& [first, count] : {std::pair<uint64_t, uint64_t>{0, 88},
                                         {0, 5},
                                         {83, 5},
                                         {rows * 8 - 3, 6},
                                         {rows * 8, 8},
                                         {87, 1}}) {
        std::vector<float> found(count);
        ASSERT_EQ((*source)->Read(kTokens, first, count, found.data()), absl::OkStatus());
        const auto begin = expected.begin() + static_cast<int64_t>(first);
        EXPECT_EQ(found, std::vector<float>(begin, begin + static_cast<int64_t>(count)));
      }
    }
  }
  // Other sizes than rows, and more of those than the model has, are still errors.
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{12, 8}, {7, 6}, {56}}) {
    FakeFile file = file_;
    uint64_t count = 1;
    for (const uint64_t size : shape) count *= size;
    file[kTokens] = {shape, std::vector<float>(count)};
    (void)Open(file);
    TensorNames names = TensorNamesOf(config_);
    names.grown = ParametersByToken(config_.transformer);
    EXPECT_FALSE(OpenNamedWeights(names, model_.get()).ok());
  }
}

// --task causal-lm on files of models that were made for something else.
TEST_F(NamedWeights, TensorsOfOtherHeadsAreLeftAsideAndThisOneBegunAnew) {
  const struct {
    const char *type, *architecture, *prefix, *head;  // `prefix`: of the trunk's tensors
  } cases[] = {{"llama", "LlamaForSequenceClassification", "model.", "score.weight"},
               {"llama", "LlamaForQuestionAnswering", "transformer.", "qa_outputs.weight"},
               {"mistral", "MistralForTokenClassification", "model.", "score.bias"},
               {"phi3", "Phi3ForSequenceClassification", "model.", "score.weight"},
               {"gpt_neox", "GPTNeoXForTokenClassification", "gpt_neox.", "classifier.weight"}};
  for (const auto& c : cases) {
    const nlohmann::json keys = {{"model_type", c.type},     {"architectures", {c.architecture}},
                                 {"vocab_size", 11},         {"hidden_size", 8},
                                 {"num_hidden_layers", 1},   {"num_attention_heads", 2},
                                 {"num_key_value_heads", 2}, {"intermediate_size", 12},
                                 {"pad_token_id", nullptr}};
    const JsonDocument document = *ParseStrictJson(keys.dump(), "config.json");
    config_ = *ParseModelConfig(document, "", ModelTask::kCausalLm);
    const TensorNames names = TensorNamesOf(config_);
    FakeFile file = {{c.head, {{2, 8}, std::vector<float>(16, 3)}}};
    for (const auto& [name, shape] : names.shapes) {
      if (name == names.head) continue;
      uint64_t count = 1;
      for (const uint64_t size : shape) count *= size;
      const absl::string_view rest = absl::StripPrefix(name, names.base_prefix);
      file[absl::StrCat(c.prefix, rest)] = {shape, std::vector<float>(count, 1)};
    }
    (void)Open(file);
    const Model model = *BuildTransformer(config_.transformer);
    InitSource initial(model, 5);
    const auto source = OpenNamedWeights(names, model_.get(), &initial);
    ASSERT_TRUE(source.ok()) << c.architecture << ": " << source.status();
    std::vector<float> head(88), drawn(88), token(1);
    ASSERT_TRUE((*source)->Read(names.head, 0, 88, head.data()).ok());
    ASSERT_TRUE(initial.Read(names.head, 0, 88, drawn.data()).ok());
    EXPECT_EQ(head, drawn);
    ASSERT_TRUE((*source)->Read(config_.transformer.names.tokens, 0, 1, token.data()).ok());
    EXPECT_EQ(token[0], 1);
    // A language model that is what its config says has no such tensors, and has its head.
    config_ = *ParseModelConfig(document);
    if (config_.task() != ModelTask::kCausalLm) continue;
    EXPECT_FALSE(OpenNamedWeights(TensorNamesOf(config_), model_.get(), &initial).ok());
  }
}

TEST_F(NamedWeights, AnUnknownNameIsNotFound) {
  float value;
  EXPECT_EQ((*Open(file_))->Read("transformer.h.0.attn.bias", 0, 1, &value).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(NamedWeights, InitialValuesDependOnSeedNameAndElementAlone) {
  const Model model = *BuildTransformer(config_.transformer);
  InitSource init(model, 5), other(model, 6);
  const std::string name = "transformer.h.0.mlp.c_fc.weight";
  std::vector<float> whole(96), piece(40), different(96);
  ASSERT_TRUE(init.Read(name, 0, 96, whole.data()).ok());
  ASSERT_TRUE(init.Read(name, 31, 40, piece.data()).ok());
  EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + 31));
  ASSERT_TRUE(other.Read(name, 0, 96, different.data()).ok());
  EXPECT_NE(whole, different);
  ASSERT_TRUE(init.Read("transformer.h.1.mlp.c_fc.weight", 0, 96, different.data()).ok());
  EXPECT_NE(whole, different);
  ASSERT_TRUE(init.Read("transformer.ln_f.weight", 2, 3, piece.data()).ok());
  EXPECT_EQ(piece[2], 1);
  EXPECT_EQ(init.Read("lm_head.weight", 0, 1, piece.data()).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace spillway
