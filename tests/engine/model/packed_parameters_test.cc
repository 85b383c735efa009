#include "engine/model/packed_parameters.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/model/frozen_parameters.h"

namespace spillway {
namespace {

ParameterDescription Parameter(const std::string& name, std::vector<int64_t> shape,
                               LinearWeight linear = LinearWeight::kNone) {
  ParameterDescription parameter{name, std::move(shape)};
  parameter.linear = linear;
  return parameter;
}

ModelDescription Described() {
  ModelDescription model;
  model.units = {{"embedding", {Parameter("tokens", {50, 8})}},
                 {"layer",
                  {Parameter("norm", {8}), Parameter("up", {20, 8}, LinearWeight::kOutIn),
                   Parameter("down", {20, 8}, LinearWeight::kInOut), Parameter("adapter", {2, 8})}},
                 {"loss", {Parameter("head", {50, 8}, LinearWeight::kOutIn)}}};
  EXPECT_EQ(LayOutParameters(model), absl::OkStatus());
  return model;
}

const Packing kPacking = {PackedFormat::kInt8, 2};

TEST(PackedParameters, AreTheFrozenMatricesOfLayers) {
  ModelDescription model = Described();
  const uint64_t count = model.parameter_count();
  FreezeRule rule;
  rule.train_only = "adapter";
  rule.packing = kPacking;
  ASSERT_EQ(FreezeParameters(
                rule, [](const std::string&) { return false; }, model),
            absl::OkStatus());
  std::vector<std::string> packed;
  for (const UnitDescription& unit : model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      if (parameter.packing.any()) packed.push_back(parameter.name);
    }
  }
  EXPECT_EQ(packed, (std::vector<std::string>{"up", "down"}));
  const UnitDescription& part = model.units[3];
  ASSERT_EQ(part.part_of, 1);
  // [20, 8] as it is, and [8, 20] of what is declared [20, 8].
  EXPECT_EQ(part.parameters[1].packed_shape().rows, 20);
  EXPECT_EQ(part.parameters[2].packed_shape().rows, 8);
  EXPECT_EQ(part.parameters[1].words, (20 * 4 + 160) / 2);
  EXPECT_EQ(part.parameters[2].words, (8 * 4 + 160) / 2);
  EXPECT_EQ(part.parameters[2].offset % kParameterStartAlignment, 0);
  EXPECT_EQ(part.flat_parameters, part.parameters[2].offset + part.parameters[2].words);
  EXPECT_EQ(model.parameter_count(), count);
}

// As bitsandbytes has left some of them.
TEST(PackedParameters, AreOnlyThoseThatAreNamed) {
  ModelDescription model = Described();
  FreezeRule rule;
  rule.train_only = "adapter";
  rule.packing = kPacking;
  rule.packed = {"down", "tokens", "elsewhere"};
  ASSERT_EQ(FreezeParameters(
                rule, [](const std::string&) { return false; }, model),
            absl::OkStatus());
  for (const UnitDescription& unit : model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      EXPECT_EQ(parameter.packing.any(), parameter.name == "down") << parameter.name;
    }
  }
}

TEST(PackedParameters, NothingToPackIsSaid) {
  ModelDescription model = Described();
  FreezeRule rule;
  rule.freeze = "tokens";
  rule.packing = kPacking;
  const absl::Status status = FreezeParameters(
      rule, [](const std::string&) { return false; }, model);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("--base-dtype int8"), absl::string_view::npos) << status;
}

TEST(PackedParameters, ACommitKnowsThem) {
  ModelDescription model = Described();
  model.units[1].frozen = true;
  PackFrozenMatrices({PackedFormat::kNf4Nested, 4}, model);
  const auto json = nlohmann::json::parse(ToJson(model).dump());
  const auto read = ModelDescriptionFromJson(json);
  ASSERT_TRUE(read.ok()) << read.status();
  for (int i = 0; i < 4; ++i) {
    const ParameterDescription &was = model.units[1].parameters[i],
                               &is = read->units[1].parameters[i];
    EXPECT_EQ(is.packing, was.packing);
    EXPECT_EQ(is.words, was.words);
    EXPECT_EQ(is.offset, was.offset);
    if (was.packing.any()) {
      EXPECT_EQ(is.linear, was.linear);
    }
  }
  for (const auto& [key, value] : {std::pair<std::string, nlohmann::json>{"format", "int7"},
                                   {"format", "none"},
                                   {"word_bytes", 3},
                                   {"word_bytes", 8},
                                   {"in_out", 1}}) {
    nlohmann::json broken = json;
    broken[1]["parameters"][1]["packed"][key] = value;
    EXPECT_FALSE(ModelDescriptionFromJson(broken).ok()) << key << value;
  }
  nlohmann::json vector = json;
  vector[1]["parameters"][1]["shape"] = {160};
  EXPECT_FALSE(ModelDescriptionFromJson(vector).ok());
}

TEST(PackedParameters, AnyRunOfElementsIsUnpackedAsDeclared) {
  for (LinearWeight linear : {LinearWeight::kOutIn, LinearWeight::kInOut}) {
    ParameterDescription parameter = Parameter("w", {70, 100}, linear);
    parameter.elements = 7000;
    parameter.packing = kPacking;
    const PackedShape shape = parameter.packed_shape();
    std::vector<float> stored;
    for (int i = 0; i < 7000; ++i) stored.push_back(static_cast<float>(i * 37 % 1001 - 500));
    std::vector<char> packed(shape.bytes());
    MatrixPacker packer(shape, packed.data());
    packer.Add(stored.data(), MatrixPacker::kRows);
    packer.Add(stored.data() + MatrixPacker::kRows * shape.columns,
               shape.rows - MatrixPacker::kRows);
    packer.Finish();
    std::vector<float> matrix(7000), whole(7000);
    Unpack(shape, packed.data(), {0, shape.rows, 0, shape.columns}, DType::kFloat32, matrix.data());
    for (int i = 0; i < 7000; ++i) {
      whole[i] = linear == LinearWeight::kOutIn ? matrix[i] : matrix[i % 100 * 70 + i / 100];
    }
    for (const auto& [first, count] :
         {std::pair{0, 7000}, {0, 100}, {37, 20}, {37, 500}, {150, 6850}, {6999, 1}, {200, 6500}}) {
      std::vector<float> found(count);
      UnpackElements(parameter, packed.data(), first, count, found.data());
      EXPECT_EQ(found, std::vector<float>(whole.begin() + first, whole.begin() + first + count))
          << first << " " << count;
    }
  }
}

}  // namespace
}  // namespace spillway
