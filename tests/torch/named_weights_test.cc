// Names, shapes and dtypes of GPT-2 files as they are found in the wild.
#include "engine/weights/named_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/families/model_config.h"
#include "engine/layers/decoder.h"
#include "engine/torch/init_source.h"
#include "engine/weights/safetensors_model.h"
#include "engine/weights/safetensors_writer.h"
#include "tests/decoder_config.h"
#include "tests/scratch_directory.h"

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
    const Model model = *BuildDecoder(config_.decoder);
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

TEST_F(NamedWeights, AnUnknownNameIsNotFound) {
  float value;
  EXPECT_EQ((*Open(file_))->Read("transformer.h.0.attn.bias", 0, 1, &value).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(NamedWeights, InitialValuesDependOnSeedNameAndElementAlone) {
  const Model model = *BuildDecoder(config_.decoder);
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
