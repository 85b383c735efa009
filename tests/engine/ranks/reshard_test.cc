#include "engine/ranks/reshard.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/swap/store/store_fixture.h"

namespace spillway {
namespace {

// Of every unit without padding; tiles hold 4096 parameters.
const std::vector<uint64_t> kParameters = {5000, 50'000, 3, 90'001};

StateLayout ShardLayout(const ShardGrid& grid) {
  std::vector<UnitLayout> units;
  for (const uint64_t parameters : kParameters) {
    units.push_back({absl::StrCat("unit.", units.size()), grid.ShardParameters(parameters)});
  }
  return StateLayout(std::move(units), {{Plane::kWeight, 2}, {Plane::kExpAvg, 4}}, 2, 4096);
}

// Numbers that say which parameter and plane they are of; behind a unit's end they are zero.
template <typename T>
T ValueOf(int unit, uint64_t parameter, int plane) {
  if (parameter >= kParameters[unit]) return 0;
  return static_cast<T>((parameter * 31 + unit) * 31 + plane + 1);
}

class ReshardTest : public testing::Test {
 protected:
  // The stores of a group's ranks, empty.
  std::vector<std::unique_ptr<SwapStore>> Create(int group, absl::string_view name) {
    std::vector<std::unique_ptr<SwapStore>> stores;
    for (int rank = 0; rank < group; ++rank) {
      StoreOptions options;
      options.directories = {directory_ / absl::StrCat(name, rank)};
      std::filesystem::create_directories(options.directories[0]);
      auto store = SwapStore::Create(ShardLayout({group, group, rank}), options);
      EXPECT_TRUE(store.ok()) << store.status();
      stores.push_back(*std::move(store));
    }
    return stores;
  }

  static void Fill(SwapStore& store, const ShardGrid& grid) {
    const StateLayout& layout = store.layout();
    for (int unit = 0; unit < layout.num_units(); ++unit) {
      for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
        const AlignedBuffer data = Allocate(layout.TileBytes(unit, tile));
        std::memset(data.get(), 0, layout.TileBytes(unit, tile));
        const uint64_t begin = grid.ShardBegin(kParameters[unit]) + layout.TileBegin(tile);
        auto* const weights = reinterpret_cast<uint16_t*>(data.get());
        auto* const moments =
            reinterpret_cast<uint32_t*>(data.get() + layout.PlaneOffset(unit, tile, 1));
        for (uint64_t i = 0; i < layout.TileParameters(unit, tile); ++i) {
          weights[i] = ValueOf<uint16_t>(unit, begin + i, 0);
          moments[i] = ValueOf<uint32_t>(unit, begin + i, 1);
        }
        WriteAt(store.WritableTile(unit, tile, 0), data.get(), layout.TileBytes(unit, tile));
        for (int plane = 0; plane < 2; ++plane) {
          const uint64_t generation = 2 + tile % 3;
          const uint64_t checksum = Checksum(store.PlaneIdentity(unit, tile, plane, generation),
                                             data.get() + layout.PlaneOffset(unit, tile, plane),
                                             layout.PlaneBytes(unit, tile, plane));
          store.RecordWrite(unit, tile, plane, {&checksum, 1}, generation);
        }
      }
    }
  }

  static std::vector<const SwapStore*> Pointers(
      const std::vector<std::unique_ptr<SwapStore>>& stores) {
    std::vector<const SwapStore*> pointers;
    for (const auto& store : stores) pointers.push_back(store.get());
    return pointers;
  }

  // Reads all of it, as one, and holds it to what Fill writes.
  static absl::Status Compare(const std::vector<const SwapStore*>& stores) {
    const int group = static_cast<int>(stores.size());
    int last_unit = 0;
    uint64_t next = 0;
    return ReadShards(stores, {group, group, 0}, kParameters, 0, 2, [&](const TileView& tile) {
      if (std::exchange(last_unit, tile.unit) != tile.unit) next = 0;
      EXPECT_EQ(tile.first_parameter, next);
      next += tile.parameters;
      const auto* const weights = reinterpret_cast<const uint16_t*>(tile.planes[0]);
      const auto* const moments = reinterpret_cast<const uint32_t*>(tile.planes[1]);
      uint64_t wrong = 0;
      for (uint64_t i = 0; i < tile.parameters; ++i) {
        const uint64_t parameter = tile.first_parameter + i;
        wrong += weights[i] != ValueOf<uint16_t>(tile.unit, parameter, 0);
        wrong += moments[i] != ValueOf<uint32_t>(tile.unit, parameter, 1);
      }
      EXPECT_EQ(wrong, 0u) << "unit " << tile.unit << " from " << tile.first_parameter;
      return absl::OkStatus();
    });
  }

  ScratchDirectory directory_;
};

TEST_F(ReshardTest, AnyNumberOfShardsBecomesAnyOther) {
  for (const int from_group : {1, 2, 3}) {
    const std::string name = absl::StrCat("from", from_group, "-");
    const auto from = Create(from_group, name);
    for (int rank = 0; rank < from_group; ++rank) Fill(*from[rank], {from_group, from_group, rank});
    ASSERT_EQ(Compare(Pointers(from)), absl::OkStatus());
    for (const int to_group : {1, 2, 3, 4}) {
      SCOPED_TRACE(absl::StrCat(from_group, " to ", to_group));
      const auto to = Create(to_group, absl::StrCat(name, "to", to_group, "-"));
      for (int rank = 0; rank < to_group; ++rank) {
        ASSERT_EQ(Reshard(Pointers(from), {from_group, from_group, 0}, kParameters,
                          {to_group, to_group, rank}, *to[rank]),
                  absl::OkStatus());
      }
      EXPECT_EQ(Compare(Pointers(to)), absl::OkStatus());
      EXPECT_EQ(to[0]->CurrentGeneration(1, 0, 0), 2u);
      EXPECT_GE(to[0]->CurrentGeneration(1, 1, 0), 3u);
    }
  }
}

TEST_F(ReshardTest, ADamagedTileOfAnyShardIsNamed) {
  const auto from = Create(2, "from");
  for (int rank = 0; rank < 2; ++rank) Fill(*from[rank], {2, 2, rank});
  const TileLocation at = from[1]->CurrentTile(3, 4, 1, 2);
  WriteAt(at, Allocate(4096).get(), 4096);
  const auto to = Create(1, "to");
  const absl::Status status = Reshard(Pointers(from), {2, 2, 0}, kParameters, {1, 1, 0}, *to[0]);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("unit 3 (unit.3), plane exp_avg, tile 4,"),
                             testing::HasSubstr(at.file->path())));
}

}  // namespace
}  // namespace spillway
