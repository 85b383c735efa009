#include "engine/weights/frozen_in_place.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// What lies where, and no bytes.
class Stores : public WeightSource {
 public:
  absl::Status Read(const std::string&, uint64_t, uint64_t, float*) override {
    return absl::UnimplementedError("nothing is read");
  }
  std::optional<StoredTensor> Stored(const std::string& name) const override {
    const auto found = tensors.find(name);
    if (found == tensors.end()) return std::nullopt;
    return found->second;
  }
  std::map<std::string, StoredTensor> tensors;
};

class FrozenInPlace : public testing::Test {
 protected:
  void SetUp() override {
    model_.units = {{"trained", {{"t", {100}}}},
                    {"base", {{"a", {33}}, {"b", {50, 100}}}},
                    {"last", {{"c", {7}}}}};
    model_.units[1].frozen = model_.units[2].frozen = true;
    ASSERT_EQ(LayOutParameters(model_), absl::OkStatus());
    Put("t", 0, 100);
    Put("a", 1001, 33);
    Put("b", 77, 5000, "/m/2");
    Put("c", 2000, 7);
  }
  void Put(const std::string& name, uint64_t offset, uint64_t elements,
           const std::string& file = "/m/1", DType dtype = DType::kBFloat16) {
    weights_.tensors[name] = {file, 100000, "file." + name, dtype, offset, elements * 2};
  }
  FrozenWeights Find(const ShardGrid& grid = {}, DType dtype = DType::kBFloat16) {
    return FindFrozenInPlace(model_, grid, dtype, weights_, "/out");
  }

  ModelDescription model_;
  Stores weights_;
};

TEST_F(FrozenInPlace, IsEveryTensorOfAFrozenUnitWhereTheUnitHasIt) {
  const FrozenWeights found = Find();
  EXPECT_EQ(found.copied_bytes, 0);
  EXPECT_THAT(found.in_place.files,
              ElementsAre(ModelFile{"/m/1", 100000}, ModelFile{"/m/2", 100000}));
  EXPECT_THAT(found.in_place.units[0], IsEmpty());
  // "b" begins at the next multiple of 32 elements.
  EXPECT_THAT(found.in_place.units[1], ElementsAre(FilePiece{0, 1001, 66, 0, "file.a"},
                                                   FilePiece{1, 77, 10000, 128, "file.b"}));
  EXPECT_THAT(found.in_place.units[2], ElementsAre(FilePiece{0, 2000, 14, 0, "file.c"}));
}

TEST_F(FrozenInPlace, IsNoUnitWithATensorInAnotherDtypeOrNone) {
  Put("a", 1001, 33, "/m/1", DType::kFloat16);
  FrozenWeights found = Find();
  EXPECT_FALSE(found.in_place.Has(1));
  EXPECT_TRUE(found.in_place.Has(2));
  EXPECT_EQ(found.copied_bytes, 5033 * 2);
  weights_.tensors.erase("a");
  EXPECT_FALSE(Find().in_place.Has(1));
  Put("a", 1001, 33);
  EXPECT_TRUE(Find().in_place.Has(1));
  EXPECT_FALSE(Find({}, DType::kFloat16).in_place.any());
  // Nor one whose file a manifest has no name for.
  Put("a", 1001, 33, "/m/\xff");
  EXPECT_FALSE(Find().in_place.Has(1));
  // Nor what the run itself may remove.
  Put("a", 1001, 33, "/out/model/model.safetensors");
  EXPECT_FALSE(Find().in_place.Has(1));
  Put("a", 1001, 33, "/output/model.safetensors");
  EXPECT_TRUE(Find().in_place.Has(1));
}

TEST_F(FrozenInPlace, ShardsTogetherAreTheWhole) {
  for (const ShardGrid& whole : {ShardGrid{2, 2, 0}, ShardGrid{4, 2, 0}, ShardGrid{3, 3, 0}}) {
    std::map<std::string, uint64_t> bytes;
    for (int rank = 0; rank < whole.group; ++rank) {
      const ShardGrid grid{whole.size, whole.group, rank};
      const FrozenWeights found = Find(grid);
      EXPECT_EQ(found.copied_bytes, 0);
      for (int unit : {1, 2}) {
        const uint64_t flat = model_.units[unit].flat_parameters;
        for (const FilePiece& piece : found.in_place.units[unit]) {
          const StoredTensor& tensor = weights_.tensors.at(piece.tensor.substr(5));
          // As far into the tensor as into the parameter.
          const uint64_t parameter_offset = piece.tensor == "file.b" ? 128 : 0;
          EXPECT_EQ(piece.file_offset - tensor.offset_bytes,
                    grid.ShardBegin(flat) * 2 + piece.unit_offset - parameter_offset);
          EXPECT_LE(piece.unit_offset + piece.size_bytes, grid.ShardParameters(flat) * 2);
          bytes[piece.tensor] += piece.size_bytes;
        }
      }
    }
    EXPECT_EQ(bytes["file.a"], 66);
    EXPECT_EQ(bytes["file.b"], 10000);
    EXPECT_EQ(bytes["file.c"], 14);
  }
}

TEST_F(FrozenInPlace, OnlySomeUnitsAreKept) {
  const InPlaceUnits all = Find().in_place;
  const InPlaceUnits kept = OnlyUnits(all, [](int unit) { return unit == 2; });
  EXPECT_FALSE(kept.Has(1));
  EXPECT_EQ(kept.units[2], all.units[2]);
  EXPECT_EQ(OnlyUnits(all, [](int) { return false; }).any(), false);
  EXPECT_THAT(OnlyUnits(all, [](int) { return false; }).files, SizeIs(0));
}

}  // namespace
}  // namespace spillway
