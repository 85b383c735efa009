#include "swap/store/in_place_tiles.h"

#include <fstream>
#include <optional>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "swap/mover/whole_store.h"
#include "swap/store/store_reader.h"
#include "tests/swap/store/model_files.h"
#include "tests/swap/store/store_fixture.h"

namespace spillway {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kUnits = 4;

// A trained unit, two that lie in the model's files and one that is frozen in the store.
class InPlace : public testing::Test {
 protected:
  void SetUp() override {
    std::mt19937_64 random(7);
    weights_.resize(kUnits);
    for (int unit : {1, 2}) {
      weights_[unit].resize(layout_.UnitBytes(unit));
      for (char& byte : weights_[unit]) byte = static_cast<char>(random());
      // Padding, in the middle and at the end.
      std::fill_n(weights_[unit].begin() + 3000, 9000, '\0');
      std::fill_n(weights_[unit].end() - 2100, 2100, '\0');
    }
    options_.directories = {swap_.path()};
    WriteModel(1);
  }

  void WriteModel(uint64_t seed) {
    options_.in_place = WriteModelFiles(model_.path(), weights_, seed);
  }

  std::unique_ptr<SwapStore> Create() {
    auto store = SwapStore::Create(layout_, options_);
    EXPECT_TRUE(store.ok()) << store.status();
    for (int unit : {0, 3}) {
      for (int tile = 0; tile < layout_.NumTiles(unit); ++tile) {
        WriteTile(**store, unit, tile, 0, layout_.NumPlanes(unit), 1);
      }
    }
    return *std::move(store);
  }

  absl::Status ReadOne(const SwapStore& store, int unit, int tile) {
    const AlignedBuffer buffer = Allocate(layout_.MaxTileBytes());
    std::memset(buffer.get(), 'j', layout_.MaxTileBytes());
    RETURN_IF_ERROR(ReadStoreTile(store, unit, tile, 0, 1, buffer.get()));
    const uint64_t begin = layout_.TileBegin(tile) * 2;
    const std::string expected = weights_[unit].substr(begin, layout_.PlaneBytes(unit, tile, 0));
    EXPECT_EQ(std::memcmp(buffer.get(), expected.data(), expected.size()), 0)
        << "unit " << unit << " tile " << tile;
    return absl::OkStatus();
  }

  absl::Status ReadAll(const SwapStore& store) {
    for (int unit : {1, 2}) {
      for (int tile = 0; tile < layout_.NumTiles(unit); ++tile) {
        RETURN_IF_ERROR(ReadOne(store, unit, tile));
      }
    }
    return absl::OkStatus();
  }

  // Of the byte that is the unit's first: changed, with the file's time as it was or not.
  void Flip(int unit, bool with_time) {
    const FilePiece& piece = options_.in_place.units[unit][0];
    const std::string& path = options_.in_place.files[piece.file].path;
    const auto time = std::filesystem::last_write_time(path);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(piece.file_offset);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(piece.file_offset);
    file.put(byte);
    file.close();
    std::filesystem::last_write_time(path, with_time ? time + std::chrono::seconds(2) : time);
  }

  std::string PathOf(int unit) const {
    return options_.in_place.files[options_.in_place.units[unit][0].file].path;
  }

  absl::StatusOr<std::unique_ptr<SwapStore>> Open(bool read_only, absl::string_view model = "") {
    CommitRecord record;
    return SwapStore::Open(swap_ / "manifest", read_only, {}, &record, FileSystem::Real(), model);
  }

  const StateLayout layout_{{{"trained", 5000},
                             {"base", 20000, /*frozen=*/true},
                             {"base.1", 9000, /*frozen=*/true},
                             {"converted", 3000, /*frozen=*/true}},
                            {{Plane::kWeight, 2}, {Plane::kExpAvg, 4}},
                            2,
                            4096};
  ScratchDirectory swap_, model_;
  std::vector<std::string> weights_;
  StoreOptions options_;
};

TEST_F(InPlace, PiecesAtAnyOffsetOfAnyFileAreTheUnitsTiles) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    WriteModel(seed);
    const auto store = Create();
    ASSERT_EQ(ReadAll(*store), absl::OkStatus());
    ASSERT_EQ(ReadAll(*store), absl::OkStatus());
    store->Remove();
  }
}

TEST_F(InPlace, NothingOfThemIsInTheStore) {
  const auto store = Create();
  const uint64_t slots = 2 * layout_.UnitBytes(0) + layout_.UnitBytes(3);
  EXPECT_EQ(SwapStore::StorageBytes(layout_, options_), slots);
  EXPECT_EQ(SwapStore::FileBytes(layout_, options_), std::vector<uint64_t>{slots});
  EXPECT_EQ(std::filesystem::file_size(swap_ / "tiles"), slots);
  uint64_t in_place = 0, pieces = 0;
  for (const ExtentInfo& extent : store->Extents()) {
    if (extent.file.find(model_.path()) == std::string::npos) continue;
    EXPECT_TRUE(extent.unit == 1 || extent.unit == 2);
    in_place += extent.size_bytes;
  }
  for (const auto& unit : options_.in_place.units) {
    for (const FilePiece& piece : unit) pieces += piece.size_bytes;
  }
  EXPECT_EQ(in_place, pieces);
  store->Remove();
  for (const ModelFile& file : options_.in_place.files) {
    EXPECT_TRUE(std::filesystem::exists(file.path));
  }
}

TEST_F(InPlace, ACommitKeepsTheChecksumsOfWhatWasRead) {
  auto store = Create();
  ASSERT_EQ(ReadOne(*store, 1, 2), absl::OkStatus());
  ASSERT_EQ(store->Commit(swap_ / "manifest", {}), absl::OkStatus());
  const std::string text = *ReadSmallFile(swap_ / "manifest");
  EXPECT_THAT(text, testing::StartsWith("spillway-manifest 3 "));
  const auto manifest = DecodeManifest(text, "m");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(*EncodeManifest(*manifest), text);
  EXPECT_EQ(manifest->in_place, options_.in_place);
  EXPECT_THAT(manifest->tiles[1][1].checksums, testing::IsEmpty());
  EXPECT_THAT(manifest->tiles[1][2].checksums, testing::SizeIs(1));
  store.reset();

  const auto again = Open(false);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(ReadAll(**again), absl::OkStatus());
  EXPECT_EQ((*again)->in_place()->KnownChecksum(1, 2), manifest->tiles[1][2].checksums[0]);
  // What was committed has its slots as ever.
  EXPECT_EQ(ReadPlane(**again, 0, 0, 0, 1), absl::OkStatus());
  EXPECT_EQ(ReadPlane(**again, 3, 0, 0, 1), absl::OkStatus());
}

TEST_F(InPlace, OtherBytesThanAreKnownAreNamed) {
  auto store = Create();
  ASSERT_EQ(ReadAll(*store), absl::OkStatus());
  ASSERT_EQ(store->Commit(swap_ / "manifest", {}), absl::OkStatus());
  Flip(1, /*with_time=*/false);
  absl::Status status = ReadOne(*store, 1, 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"tensor.1.0\""));
  EXPECT_THAT(std::string(status.message()), HasSubstr(PathOf(1)));
  EXPECT_THAT(std::string(status.message()), HasSubstr("not the bytes that the run has read"));
  // The same to whoever resumes.
  store.reset();
  const auto again = Open(false);
  ASSERT_TRUE(again.ok()) << again.status();
  status = ReadOne(**again, 1, 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  Flip(1, false);
  EXPECT_EQ(ReadOne(**again, 1, 0), absl::OkStatus());
}

TEST_F(InPlace, AFileThatIsWrittenToUnderTheRunIsNamed) {
  for (const bool before_the_first_read : {true, false}) {
    const auto store = Create();
    if (!before_the_first_read) {
      ASSERT_EQ(ReadAll(*store), absl::OkStatus());
    }
    Flip(1, /*with_time=*/true);
    const absl::Status status = ReadOne(*store, 1, 0);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(PathOf(1) + " has changed while"));
    Flip(1, true);
    store->Remove();
  }
}

TEST_F(InPlace, AMissingOrShorterFileIsDamageAndAnotherPlaceMayHaveIt) {
  auto store = Create();
  ASSERT_EQ(ReadAll(*store), absl::OkStatus());
  ASSERT_EQ(store->Commit(swap_ / "manifest", {}), absl::OkStatus());
  store.reset();
  const ScratchDirectory other;
  for (const ModelFile& file : options_.in_place.files) {
    std::filesystem::rename(file.path, other / FileName(file.path));
  }
  absl::Status status = Open(false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("missing"));
  EXPECT_EQ(SwapStore::Create(layout_, options_).status().code(), absl::StatusCode::kDataLoss);
  // What only looks is told when it reads.
  const auto looking = Open(true);
  ASSERT_TRUE(looking.ok()) << looking.status();
  EXPECT_EQ(ReadPlane(**looking, 0, 0, 0, 1), absl::OkStatus());
  EXPECT_EQ(ReadOne(**looking, 1, 0).code(), absl::StatusCode::kDataLoss);

  auto moved = Open(false, other.path());
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(ReadAll(**moved), absl::OkStatus());
  // From now on it is there.
  ASSERT_EQ((*moved)->Commit(swap_ / "manifest", {}), absl::OkStatus());
  moved->reset();
  EXPECT_EQ(ReadAll(**Open(false)), absl::OkStatus());

  const std::string last = other / FileName(PathOf(1));
  std::filesystem::resize_file(last, std::filesystem::file_size(last) - 1);
  status = Open(false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(last));
  EXPECT_THAT(std::string(status.message()), HasSubstr("it was cut"));
}

TEST_F(InPlace, AFileThatIsCutUnderTheRunIsNamed) {
  const auto store = Create();
  ASSERT_EQ(ReadAll(*store), absl::OkStatus());
  std::filesystem::resize_file(PathOf(1), options_.in_place.units[1][0].file_offset);
  const absl::Status status = ReadOne(*store, 1, 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(PathOf(1) + " has changed while"));
}

TEST_F(InPlace, ACopyOfTheStoreReadsTheSameFiles) {
  const auto store = Create();
  ASSERT_EQ(ReadOne(*store, 2, 0), absl::OkStatus());
  const ScratchDirectory target;
  StoreOptions options = options_;
  options.directories = {target.path()};
  options.two_slots = false;
  const auto copy = SwapStore::Create(layout_, options);
  ASSERT_TRUE(copy.ok()) << copy.status();
  ASSERT_EQ(CopyStore(*store, **copy), absl::OkStatus());
  EXPECT_EQ(std::filesystem::file_size(target / "tiles"),
            layout_.UnitBytes(0) + layout_.UnitBytes(3));
  EXPECT_EQ((*copy)->in_place()->KnownChecksum(2, 0), store->in_place()->KnownChecksum(2, 0));
  EXPECT_EQ((*copy)->in_place()->KnownChecksum(1, 0), std::nullopt);
  ASSERT_EQ((*copy)->Commit(target / "manifest", {}), absl::OkStatus());
  CommitRecord record;
  const auto opened = SwapStore::Open(target / "manifest", true, {}, &record);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(ReadAll(**opened), absl::OkStatus());
  EXPECT_EQ(ReadPlane(**opened, 0, 1, 1, 1), absl::OkStatus());
}

TEST_F(InPlace, ManifestsThatCannotBeAreRefused) {
  auto store = Create();
  ASSERT_EQ(store->Commit(swap_ / "manifest", {}), absl::OkStatus());
  const Manifest good = *DecodeManifest(*ReadSmallFile(swap_ / "manifest"), "m");
  const auto refused = [&](auto&& change) {
    Manifest manifest = good;
    change(manifest);
    return DecodeManifest(*EncodeManifest(manifest), "m").status().code() ==
           absl::StatusCode::kDataLoss;
  };
  EXPECT_FALSE(refused([](Manifest&) {}));
  EXPECT_TRUE(refused([](Manifest& m) { m.in_place.files[0].path = "model.safetensors"; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.in_place.units[1][0].file = 3; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.in_place.units[1][0].size_bytes = 0; }));
  EXPECT_TRUE(refused(
      [](Manifest& m) { m.in_place.files[m.in_place.units[1].back().file].size_bytes = 10; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.in_place.units[1][1].unit_offset = 0; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.in_place.units[1].back().unit_offset = 40960; }));
  EXPECT_TRUE(refused([](Manifest& m) {
    m.layout = StateLayout(
        {{"trained", 5000}, {"base", 20000}, {"base.1", 9000, true}, {"converted", 3000, true}},
        m.layout.planes(), 2, 4096);
  }));
}

}  // namespace
}  // namespace spillway
