// What of PEFT's file is no parameter of its own: matrices that are tied, and what old versions
// have written.
#include "engine/adapters/adapter_file.h"

#include <map>
#include <string>
#include <vector>

#include "engine/weights/safetensors_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file_system.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

// tokens.weight is 1, 2, 3, ...
class TiedBase final : public WeightSource {
 public:
  absl::Status Read(const std::string&, uint64_t first, uint64_t count, float* out) override {
    for (uint64_t i = 0; i < count; ++i) out[i] = static_cast<float>(first + i + 1);
    return absl::OkStatus();
  }
  std::optional<StoredTensor> Stored(const std::string& name) const override {
    return StoredTensor{.name = name};
  }
};

class MaskedAdapter : public testing::Test {
 protected:
  MaskedAdapter() {
    model_.units = {{"unit",
                     {{"q.weight", {2, 2}},
                      {"tokens.weight", {3, 2}},
                      {"cls.bias", {2}},
                      {"norm.weight", {2}}}}};
    model_.units[0].parameters[0].linear = LinearWeight::kOutIn;
    names_.shapes = {{"tokens.weight", {3, 2}}};
    names_.aliases = {{"cls.decoder.bias", "cls.bias"}};
    names_.repeats = {"cls.decoder.bias"};
    names_.ignored = {".attn.bias"};
    names_.zeros = {"logits_bias"};
    names_.head = "cls.decoder.weight";
    names_.tied_to = "tokens.weight";
    LoraConfig config;
    config.r = 1;
    config.targets = {"q"};
    config.modules_to_save = {"cls"};
    layout_ = *LayOutAdapters(model_, config);
    EXPECT_TRUE(WriteFileAtomically(dir_ / kAdapterConfigName,
                                    AdapterConfigJson(config, "base", false).dump())
                    .ok());
  }

  struct Tensor {
    std::string name;
    std::vector<uint64_t> shape;
    std::vector<float> values;
  };

  // Of the adapter on q, and of these.
  absl::Status Open(std::vector<Tensor> tensors) {
    tensors.push_back({"q.lora_A.weight", {1, 2}, {0, 0}});
    tensors.push_back({"q.lora_B.weight", {2, 1}, {0, 0}});
    std::vector<ExportTensor> described;
    for (const Tensor& tensor : tensors) {
      described.push_back({"base_model.model." + tensor.name, DType::kFloat32, tensor.shape});
    }
    auto writer = *SafetensorsWriter::Create(dir_ / kAdapterWeightsName, described);
    for (const Tensor& tensor : tensors) {
      EXPECT_TRUE(writer->AppendFp32(tensor.values.data(), tensor.values.size()).ok());
    }
    EXPECT_TRUE(writer->Finish().ok());
    adapter_ = *AdapterFile::Open(dir_.path());
    return adapter_->Match(model_, layout_, names_);
  }

  const ScratchDirectory dir_;
  ModelDescription model_;
  TensorNames names_;
  AdapterLayout layout_;
  std::unique_ptr<AdapterFile> adapter_;
};

TEST_F(MaskedAdapter, ATiedHeadIsTheEmbeddingOrRefused) {
  TiedBase base;
  for (const float last : {6.0f, 6.02f, 6.5f}) {  // the second may be it before it was rounded
    ASSERT_TRUE(Open({{"cls.bias", {2}, {7, 7}},
                      {"cls.decoder.bias", {2}, {7, 7}},
                      {"cls.decoder.weight", {3, 2}, {1, 2, 3, 4, 5, last}}})
                    .ok());
    AdaptedWeights weights(&base, adapter_.get(), nullptr);
    float values[6];
    EXPECT_TRUE(weights.Read("tokens.weight", 0, 5, values).ok());
    const std::string refusal(weights.Read("tokens.weight", 3, 3, values).message());
    EXPECT_THAT(refusal, testing::HasSubstr(last < 6.1f ? "" : "tie_word_embeddings"));
    EXPECT_EQ(refusal.empty(), last < 6.1f);
    EXPECT_FALSE(weights.Stored("tokens.weight"));  // or it would not be compared
    EXPECT_TRUE(weights.Stored("norm.weight"));
  }
  EXPECT_THAT(Open({{"cls.bias", {2}, {7, 7}}, {"cls.decoder.weight", {1}, {1}}}).message(),
              testing::HasSubstr("[3, 2]"));
}

TEST_F(MaskedAdapter, OfTiedNamesTheParametersOwnCounts) {
  const Tensor own = {"cls.bias", {2}, {1, 1}}, other = {"cls.decoder.bias", {2}, {2, 2}};
  for (const auto& [tensors, expected] : std::vector<std::pair<std::vector<Tensor>, float>>{
           {{own, other}, 1}, {{other, own}, 1}, {{other}, 2}}) {
    ASSERT_TRUE(Open(tensors).ok());
    float value = 0;
    ASSERT_TRUE(adapter_->Read("cls.bias", 0, 1, &value).ok());
    EXPECT_EQ(value, expected);
  }
}

TEST_F(MaskedAdapter, WhatIsNoParameterIsPassedOver) {
  const Tensor bias = {"cls.bias", {2}, {1, 1}};
  EXPECT_TRUE(Open({bias, {"h.0.attn.bias", {1}, {1}}, {"logits_bias", {1}, {0}}}).ok());
  EXPECT_FALSE(adapter_->Has("logits_bias"));
  EXPECT_THAT(Open({bias, {"h.0.other.bias", {1}, {1}}}).message(),
              testing::HasSubstr("h.0.other.bias"));
}

}  // namespace
}  // namespace spillway
