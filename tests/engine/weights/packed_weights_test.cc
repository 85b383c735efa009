#include "engine/weights/packed_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "engine/model/packed_parameters.h"

namespace spillway {
namespace {

// Every parameter's elements are 0, 1, 2, ... over 64; and those that are packed already.
class Counting : public WeightSource {
 public:
  absl::Status Read(const std::string&, uint64_t first, uint64_t count, float* out) override {
    for (uint64_t i = 0; i < count; ++i) out[i] = static_cast<float>(first + i) / 64;
    if (first <= not_finite_ && not_finite_ < first + count) out[not_finite_ - first] = INFINITY;
    return absl::OkStatus();
  }
  std::optional<StoredTensor> Stored(const std::string& name) const override {
    return StoredTensor{"file", 1, name};
  }
  PackedFormat packed(const std::string& name) const override {
    return name == "packed" ? PackedFormat::kInt8 : PackedFormat::kNone;
  }
  absl::Status ReadPacked(const std::string&, const PackedShape& shape, char* out) override {
    std::memset(out, 7, shape.bytes());
    return absl::OkStatus();
  }
  uint64_t not_finite_ = 1 << 30;
};

class PackedWeightsTest : public testing::Test {
 protected:
  void Describe(PackedFormat format, uint32_t word_bytes) {
    model_.units = {{"layer", {{"norm", {8}}, {"up", {300, 40}}, {"down", {300, 40}}}},
                    {"loss", {{"head", {3}}}}};
    model_.units[0].parameters.push_back({"packed", {4, 4}});
    for (int i : {1, 3}) model_.units[0].parameters[i].linear = LinearWeight::kOutIn;
    model_.units[0].parameters[2].linear = LinearWeight::kInOut;
    model_.units[0].frozen = true;
    ASSERT_EQ(LayOutParameters(model_), absl::OkStatus());
    PackFrozenMatrices({format, word_bytes}, model_);
  }
  const ParameterDescription& Parameter(int i) { return model_.units[0].parameters[i]; }

  // All words, in pieces of `piece`, as bytes.
  std::vector<char> Words(PackedWeights& weights, const ParameterDescription& parameter,
                          uint64_t piece) {
    std::vector<char> bytes;
    for (uint64_t first = 0; first < parameter.words; first += piece) {
      std::vector<float> words(std::min(piece, parameter.words - first));
      EXPECT_TRUE(weights.Read(parameter.name, first, words.size(), words.data()).ok());
      for (const float word : words) {
        char raw[4];
        std::memcpy(raw, &word, sizeof(raw));
        bytes.insert(bytes.end(), raw, raw + parameter.packing.word_bytes);
      }
    }
    return bytes;
  }

  ModelDescription model_;
  Counting source_;
};

TEST_F(PackedWeightsTest, WordsAreThoseOfThePackedMatrixWhicheverWayItIsDeclared) {
  for (PackedFormat format : {PackedFormat::kInt8, PackedFormat::kNf4, PackedFormat::kNf4Nested}) {
    for (uint32_t word_bytes : {2u, 4u}) {
      Describe(format, word_bytes);
      PackedWeights weights(&source_, model_);
      for (int i : {1, 2}) {
        const ParameterDescription& parameter = Parameter(i);
        const PackedShape shape = parameter.packed_shape();
        std::vector<float> stored(shape.values());
        for (int64_t row = 0; row < shape.rows; ++row) {
          for (int64_t column = 0; column < shape.columns; ++column) {
            const int64_t element =
                i == 1 ? row * shape.columns + column : column * shape.rows + row;
            stored[row * shape.columns + column] = static_cast<float>(element) / 64;
          }
        }
        std::vector<char> expected(shape.bytes());
        MatrixPacker packer(shape, expected.data());
        for (int64_t row = 0; row < shape.rows; row += MatrixPacker::kRows) {
          packer.Add(stored.data() + row * shape.columns,
                     std::min(MatrixPacker::kRows, shape.rows - row));
        }
        packer.Finish();
        EXPECT_EQ(Words(weights, parameter, 1000), expected);
        EXPECT_EQ(Words(weights, parameter, 1 << 20), expected);
      }
    }
  }
}

TEST_F(PackedWeightsTest, WhatIsPackedInTheSameFormIsTakenAsItIs) {
  Describe(PackedFormat::kInt8, 2);
  PackedWeights weights(&source_, model_);
  EXPECT_EQ(Words(weights, Parameter(3), 5),
            std::vector<char>(Parameter(3).packed_shape().bytes(), 7));
  Describe(PackedFormat::kNf4, 2);
  PackedWeights other(&source_, model_);
  EXPECT_NE(Words(other, Parameter(3), 5)[0], 7);
}

TEST_F(PackedWeightsTest, OthersAreAsTheyAre) {
  Describe(PackedFormat::kInt8, 2);
  PackedWeights weights(&source_, model_);
  float values[3];
  ASSERT_TRUE(weights.Read("norm", 2, 3, values).ok());
  EXPECT_EQ(values[1], 3.0f / 64);
  EXPECT_TRUE(weights.Stored("norm"));
  EXPECT_FALSE(weights.Stored("up"));
}

TEST_F(PackedWeightsTest, AValueThatIsNotFiniteIsNamed) {
  Describe(PackedFormat::kNf4Nested, 2);
  source_.not_finite_ = 11999;
  PackedWeights weights(&source_, model_);
  float word = 0;
  const absl::Status status = weights.Read("down", 0, 1, &word);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("\"down\""), absl::string_view::npos) << status;
}

TEST_F(PackedWeightsTest, ThreadsThatAskForDifferentPiecesGetThem) {
  Describe(PackedFormat::kNf4Nested, 2);
  PackedWeights weights(&source_, model_), alone(&source_, model_);
  const std::vector<char> expected[] = {Words(alone, Parameter(1), 1 << 20),
                                        Words(alone, Parameter(2), 1 << 20),
                                        Words(alone, Parameter(3), 1 << 20)};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 9; ++i) {
        const int which = (thread + i) % 3;
        EXPECT_EQ(Words(weights, Parameter(1 + which), 700), expected[which]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace spillway
