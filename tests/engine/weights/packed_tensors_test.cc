// Directories that bitsandbytes has written, tests/golden/make_packed.py, and what may be wrong.
#include "engine/weights/packed_tensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "engine/model/tensor_names.h"
#include "engine/weights/named_weights.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

constexpr const char* kGolden = SPILLWAY_SOURCE_DIR "/tests/golden/packed/";

// The matrix that was quantised: make_packed.py's [40, 24].
std::vector<float> Original() {
  std::vector<float> values;
  for (int64_t i = 0; i < 40 * 24; ++i) {
    const auto value = static_cast<float>((i * 40503 + 12345) % 4096 - 2048) * 0x1p-12f;
    values.push_back(i / 24 == 20 ? 0 : value * static_cast<float>(1 << i / 24 % 3));
  }
  return values;
}

TensorNames NamesWith(LinearWeight linear) {
  TensorNames names;
  names.shapes = {{"norm.weight", {4}}, {"layer.weight", {40, 24}}};
  if (linear == LinearWeight::kInOut) names.shapes["layer.weight"] = {24, 40};
  if (linear != LinearWeight::kNone) names.linear = {{"layer.weight", linear}};
  return names;
}

struct Kind {
  const char* folder;
  PackedFormat format;
};
const Kind kKinds[] = {{"int8", PackedFormat::kInt8},
                       {"nf4", PackedFormat::kNf4Nested},
                       {"nf4_fp32_scales", PackedFormat::kNf4}};

TEST(PackedTensors, AreTheBytesThatOurOwnQuantisationGives) {
  for (const auto& [folder, format] : kKinds) {
    SCOPED_TRACE(folder);
    const auto model = SafetensorsModel::Open(std::string(kGolden) + folder);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto packed = PackedTensors::Find(model->get());
    ASSERT_TRUE(packed.ok()) << packed.status();
    const PackedShape shape = packed->shape("layer.weight");
    ASSERT_EQ(shape.format, format);
    EXPECT_EQ(shape.rows, 40);
    EXPECT_EQ(shape.columns, 24);
    EXPECT_EQ(packed->shape("norm.weight").format, PackedFormat::kNone);
    std::vector<char> found(shape.bytes()), expected(shape.bytes());
    ASSERT_EQ(packed->Read("layer.weight", found.data()), absl::OkStatus());
    MatrixPacker packer(shape, expected.data());
    packer.Add(Original().data(), 40);
    packer.Finish();
    EXPECT_EQ(found, expected);
    int beside = 0;
    for (const SafetensorsTensor* tensor : (*model)->tensors()) {
      beside += packed->IsBeside(tensor->name);
    }
    EXPECT_EQ(beside, static_cast<int>((*model)->tensors().size()) - 2);
  }
}

TEST(PackedTensors, AModelsWeightsGiveThemPackedAndAsValues) {
  for (LinearWeight linear : {LinearWeight::kOutIn, LinearWeight::kInOut}) {
    for (const auto& [folder, format] : kKinds) {
      const auto model = SafetensorsModel::Open(std::string(kGolden) + folder);
      const auto weights = OpenNamedWeights(NamesWith(linear), model->get());
      ASSERT_TRUE(weights.ok()) << weights.status();
      EXPECT_EQ((*weights)->packed("layer.weight"), format);
      EXPECT_EQ((*weights)->packed("norm.weight"), PackedFormat::kNone);
      EXPECT_FALSE((*weights)->Stored("layer.weight"));
      EXPECT_TRUE((*weights)->Stored("norm.weight"));
      std::vector<float> values(40 * 24);
      ASSERT_TRUE((*weights)->Read("layer.weight", 0, 400, values.data()).ok());
      ASSERT_TRUE((*weights)->Read("layer.weight", 400, 560, values.data() + 400).ok());
      const std::vector<float> original = Original();
      for (int i = 0; i < 40 * 24; ++i) {
        const float was =
            linear == LinearWeight::kOutIn ? original[i] : original[i % 40 * 24 + i / 40];
        EXPECT_NEAR(values[i], was, format == PackedFormat::kInt8 ? 0.01 : 0.35) << i;
      }
    }
  }
}

TEST(PackedTensors, OfAnotherShapeOrNoLayersMatrixIsRefused) {
  const auto model = SafetensorsModel::Open(std::string(kGolden) + "nf4");
  TensorNames other = NamesWith(LinearWeight::kOutIn);
  other.shapes["layer.weight"] = {24, 40};
  for (const TensorNames& names : {other, NamesWith(LinearWeight::kNone)}) {
    const auto weights = OpenNamedWeights(names, model->get());
    EXPECT_EQ(weights.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(weights.status().message().find("layer.weight is quantised"), std::string::npos)
        << weights.status();
  }
}

class BrokenPackedTensors : public testing::Test {
 protected:
  // What Find says of a file of the same length with `from` replaced, wherever it is.
  std::string Refusal(const std::string& folder, const std::string& from, const std::string& to) {
    EXPECT_EQ(from.size(), to.size());
    std::ifstream file(std::string(kGolden) + folder + "/model.safetensors", std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const std::string changed = absl::StrReplaceAll(text, {{from, to}});
    EXPECT_NE(changed, text) << from;
    std::ofstream(dir_ / "model.safetensors", std::ios::binary) << changed;
    const auto model = SafetensorsModel::Open(dir_.path());
    if (!model.ok()) return std::string(model.status().message());
    const auto packed = PackedTensors::Find(model->get());
    EXPECT_EQ(packed.status().code(), absl::StatusCode::kInvalidArgument) << from;
    return std::string(packed.status().message());
  }
  const ScratchDirectory dir_;
};

TEST_F(BrokenPackedTensors, AreNamed) {
  const auto expect = [&](const std::string& folder, const std::string& from, const std::string& to,
                          const std::string& tensor) {
    const std::string said = Refusal(folder, from, to);
    EXPECT_NE(said.find(tensor), std::string::npos) << from << ": " << said;
  };
  expect("nf4", "\"quant_type\": \"nf4\"", "\"quant_type\": \"nf5\"", "bitsandbytes__nf4");
  expect("nf4", "\"blocksize\": 64", "\"blocksize\": 65", "bitsandbytes__nf4");
  expect("nf4", "\"nested_blocksize\": 256", "\"nested_blocksize\": 255", "bitsandbytes__nf4");
  expect("nf4", "\"shape\": [40, 24]", "\"shape\": [40.,24]", "bitsandbytes__nf4");
  expect("nf4", "\"shape\": [40, 24]", "\"shape\": [40, 48]", "layer.weight has 480");
  expect("nf4", "\"layer.weight.absmax\"", "\"layer.weight.absmin\"", "layer.weight.absmax");
  expect("nf4", "\"layer.weight.nested_absmax\"", "\"layer.weight.nested_absmin\"",
         "layer.weight.nested_absmax");
  expect("nf4", "\"layer.weight.quant_map\"", "\"layer.weight.quant_mip\"",
         "layer.weight.quant_map");
  // The table's last two values.
  expect("nf4_fp32_scales", std::string("\xb3\x13\x39\x3f\0\0\x80\x3f", 8),
         std::string("\xb3\x13\x39\x3f\0\0\x80\x3e", 8), "layer.weight.quant_map is another");
  expect("int8", "\"layer.SCB\"", "\"layer.SCD\"", "no scales layer.SCB");
}

TEST_F(BrokenPackedTensors, Fp4IsNot) {
  const auto model = SafetensorsModel::Open(std::string(kGolden) + "fp4");
  const auto packed = PackedTensors::Find(model->get());
  EXPECT_EQ(packed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(packed.status().message().find("nf4 and int8"), absl::string_view::npos);
}

}  // namespace
}  // namespace spillway
