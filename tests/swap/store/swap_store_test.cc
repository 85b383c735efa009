#include "swap/store/swap_store.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/swap/store/store_fixture.h"

namespace spillway {
namespace {

using testing::HasSubstr;

// In how many places of the device a file lies; 0 where the file system does not tell. Extents
// that follow each other there are one place: written and unwritten ones are told apart by flags.
int ContiguousPieces(const std::string& path) {
  constexpr uint32_t kMostExtents = 4096;
  const int fd = open(path.c_str(), O_RDONLY);
  EXPECT_GE(fd, 0);
  std::vector<char> memory(sizeof(fiemap) + kMostExtents * sizeof(fiemap_extent));
  auto* map = reinterpret_cast<fiemap*>(memory.data());
  map->fm_length = FIEMAP_MAX_OFFSET;
  map->fm_flags = FIEMAP_FLAG_SYNC;
  map->fm_extent_count = kMostExtents;
  const bool told = ioctl(fd, FS_IOC_FIEMAP, map) == 0;
  close(fd);
  if (!told) return 0;
  int pieces = 0;
  uint64_t end = ~uint64_t{0};
  for (uint32_t i = 0; i < map->fm_mapped_extents; ++i) {
    const fiemap_extent& extent = map->fm_extents[i];
    if (extent.fe_physical != end) ++pieces;
    end = extent.fe_physical + extent.fe_length;
  }
  return pieces;
}

TEST(SwapStore, WhatWasWrittenIsReadBack) {
  ScratchDirectory dir;
  auto store = CreateStore({.directories = {dir.path()}});
  EXPECT_TRUE(store->IsStale(0, 0, 0));
  WriteEverything(*store, 1);
  EXPECT_FALSE(store->IsStale(0, 0, 0));
  EXPECT_TRUE(ReadEverything(*store, 1).ok()) << ReadEverything(*store, 1);
  WriteEverything(*store, 2);
  EXPECT_TRUE(ReadEverything(*store, 2).ok()) << ReadEverything(*store, 2);
}

TEST(SwapStore, FilesArePrivateAndExactlyAsLargeAsAnnounced) {
  ScratchDirectory a, b, c;
  for (bool two_slots : {false, true}) {
    for (const SpillRoom& spill : {SpillRoom{}, SpillRoom{{true, false, true, true}},
                                   SpillRoom{{true, false, true, true}, {0, 4096, 5 << 20, 0}}}) {
      const StoreOptions options{{a.path(), b.path(), c.path()}, two_slots, spill};
      auto store = CreateStore(options);
      uint64_t total_bytes = 0;
      std::vector<uint64_t> sizes_bytes;
      for (const ScratchDirectory* dir : {&a, &b, &c}) {
        struct stat info;
        ASSERT_EQ(lstat((*dir / "tiles").c_str(), &info), 0);
        EXPECT_EQ(info.st_mode & 0777, 0600);
        EXPECT_GE(info.st_blocks * 512, info.st_size);
        total_bytes += info.st_size;
        sizes_bytes.push_back(info.st_size);
      }
      EXPECT_EQ(SwapStore::FileBytes(SmallLayout(), options), sizes_bytes);
      EXPECT_EQ(total_bytes, SwapStore::StorageBytes(SmallLayout(), options));
      store->Remove();
      EXPECT_TRUE(std::filesystem::is_empty(a.path()));
    }
  }
}

TEST(SwapStore, WithoutFilesAllStandsWhereItWouldBeWithThem) {
  ScratchDirectory a;
  const SpillRoom spill{{true, false, true, true}, {0, 4096, 5 << 20, 0}};
  const auto files = CreateStore({{a.path()}, false, spill});
  const auto none = SwapStore::WithoutFiles(SmallLayout(), spill);
  const StateLayout& layout = none->layout();
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
      const uint64_t offset_bytes = files->WritableTile(unit, tile, 0).offset_bytes;
      EXPECT_EQ(none->CurrentTile(unit, tile, 0, layout.num_planes()).offset_bytes, offset_bytes);
      EXPECT_EQ(none->WritableTile(unit, tile, 0).offset_bytes, offset_bytes);
      EXPECT_EQ(none->CurrentTile(unit, tile, 0, 1).file, nullptr);
      EXPECT_FALSE(none->IsStale(unit, tile, 0));
      if (!spill.gradients[unit]) continue;
      EXPECT_EQ(none->GradientTile(unit, tile).offset_bytes,
                files->GradientTile(unit, tile).offset_bytes);
    }
    EXPECT_EQ(none->NumPieces(unit), files->NumPieces(unit));
  }
}

// Every slot of every tile and every gradient in a place of its own, in whole
// blocks, neighbours next to each other.
TEST(SwapStore, PlacesAreDisjointAndSequential) {
  ScratchDirectory a, b;
  const uint64_t piece = SwapStore::PieceBytes(SmallLayout());
  auto store = CreateStore(
      {{a.path(), b.path()}, true, {{true, true, false, false}, {0, 3 * piece, piece + 4096, 0}}});
  const StateLayout& layout = store->layout();
  std::vector<std::tuple<std::string, uint64_t, uint64_t>> extents;
  const auto add = [&](const TileLocation& where, uint64_t size_bytes) {
    EXPECT_EQ(where.offset_bytes % 4096, 0);
    extents.emplace_back(where.file->path(), where.offset_bytes, where.offset_bytes + size_bytes);
  };
  for (int round = 0; round < 2; ++round) {  // slot 0, then slot 1
    for (int unit = 0; unit < layout.num_units(); ++unit) {
      for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
        add(store->WritableTile(unit, tile, 0), layout.TileBytes(unit, tile));
        EXPECT_EQ(
            store->WritableTile(unit, tile, 2).offset_bytes,
            store->WritableTile(unit, tile, 0).offset_bytes + layout.PlaneOffset(unit, tile, 2));
      }
    }
    WriteEverything(*store, round);
    ASSERT_TRUE(store->Commit(a / "manifest", {}).ok());
  }
  for (int unit = 0; unit < 2; ++unit) {
    for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
      add(store->GradientTile(unit, tile), layout.GradientBytes(unit, tile));
    }
  }
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    for (int i = 0; i < store->NumPieces(unit); ++i) {
      add(store->ActivationPiece(unit, i), store->PieceBytes(unit, i));
    }
  }
  // Already in order, each beginning where the one before ended.
  std::stable_sort(extents.begin(), extents.end(),
                   [](const auto& x, const auto& y) { return std::get<0>(x) < std::get<0>(y); });
  for (size_t i = 0; i < extents.size(); ++i) {
    const bool first = i == 0 || std::get<0>(extents[i]) != std::get<0>(extents[i - 1]);
    EXPECT_EQ(std::get<1>(extents[i]), first ? 0 : std::get<2>(extents[i - 1]));
  }
}

TEST(SwapStore, AFasterPathGetsMoreOfTheState) {
  ScratchDirectory a, b;
  const StateLayout layout({{"one", 400 * 2048}}, {{Plane::kWeight, 2}, {Plane::kResidual, 2}}, 2,
                           2048);
  StoreOptions options{.directories = {a.path(), b.path()}, .rates = {1e9, 3e9}};
  auto store = SwapStore::Create(layout, options);
  ASSERT_TRUE(store.ok()) << store.status();
  struct stat slow, fast;
  ASSERT_EQ(stat((a / "tiles").c_str(), &slow), 0);
  ASSERT_EQ(stat((b / "tiles").c_str(), &fast), 0);
  EXPECT_EQ(slow.st_size, 100 * 2 * 8192);
  EXPECT_EQ(fast.st_size, 300 * 2 * 8192);
  WriteEverything(**store, 1);
  ASSERT_TRUE((*store)->Commit(a / "manifest", {.step = 1}).ok());
  // Whoever opens it goes by what the manifest says, and needs no rates.
  CommitRecord record;
  auto again = SwapStore::Open(a / "manifest", true, {}, &record);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(ReadEverything(**again, 1).ok());
}

// All space is taken, in as few pieces as the file system gives, before the first write; writes
// and overwrites in any order take no more and break nothing up.
TEST(SwapStore, WritingInPlaceAllocatesNothing) {
  ScratchDirectory dir;
  const StateLayout layout({{"one", 64 * 65536}, {"two", 64 * 65536}},
                           {{Plane::kWeight, 2}, {Plane::kResidual, 2}}, 2, 65536);
  auto store = SwapStore::Create(layout, {{dir.path()}, true, {{true, true}}});
  ASSERT_TRUE(store.ok()) << store.status();
  const std::string path = dir / "tiles";
  struct stat before, after;
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  const int pieces = ContiguousPieces(path);
  if (pieces == 0) GTEST_SKIP() << "the file system does not tell where files lie";
  std::vector<std::pair<int, int>> tiles;
  for (int unit = 0; unit < 2; ++unit) {
    for (int tile = 0; tile < layout.NumTiles(unit); ++tile) tiles.emplace_back(unit, tile);
  }
  std::mt19937 random(3);
  for (uint64_t generation = 1; generation <= 3; ++generation) {
    std::shuffle(tiles.begin(), tiles.end(), random);
    for (const auto& [unit, tile] : tiles) WriteTile(**store, unit, tile, 0, 2, generation);
    ASSERT_TRUE((*store)->Commit(dir / "manifest", {.step = generation}).ok());
  }
  ASSERT_EQ(stat(path.c_str(), &after), 0);
  EXPECT_EQ(before.st_blocks, after.st_blocks);
  EXPECT_EQ(before.st_size, after.st_size);
  EXPECT_LE(ContiguousPieces(path), pieces);
}

TEST(SwapStore, ACommitIsOpenedAgain) {
  ScratchDirectory a, b;
  for (bool read_only : {false, true}) {
    ASSERT_TRUE(SwapStore::RemoveLeftovers(a.path()).ok());
    ASSERT_TRUE(SwapStore::RemoveLeftovers(b.path()).ok());
    {
      auto store = CreateStore({.directories = {a.path(), b.path()}});
      WriteEverything(*store, 7);
      ASSERT_TRUE(store->Commit(a / "manifest", {.step = 5, .engine_state = "{}"}).ok());
      WriteEverything(*store, 8);  // never committed
    }
    CommitRecord record;
    auto store = SwapStore::Open(a / "manifest", read_only, {}, &record);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(record.step, 5);
    EXPECT_EQ(record.engine_state, "{}");
    EXPECT_EQ((*store)->layout(), SmallLayout());
    EXPECT_TRUE((*store)->two_slots());
    EXPECT_EQ((*store)->directories(), (std::vector<std::string>{a.path(), b.path()}));
    EXPECT_TRUE(ReadEverything(**store, 7).ok()) << ReadEverything(**store, 7);
    if (!read_only) {
      WriteEverything(**store, 9);
      ASSERT_TRUE((*store)->Commit(a / "manifest", {.step = 6}).ok());
      auto again = SwapStore::Open(a / "manifest", true, {}, &record);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(record.step, 6);
      EXPECT_TRUE(ReadEverything(**again, 9).ok());
    }
  }
}

// Another store may be where it was by then.
TEST(SwapStore, WhatIsBelowItsManifestIsMovedWithIt) {
  ScratchDirectory dir, other;
  for (const char* name : {"out", "out/a", "out/b", "out/b/c"}) {
    std::filesystem::create_directory(dir / name);
  }
  const auto create = [&] {
    return CreateStore({.directories = {dir / "out/a", other.path(), dir / "out/b/c"}});
  };
  {
    auto store = create();
    WriteEverything(*store, 1);
    ASSERT_TRUE(store->Commit(dir / "out/manifest", {.step = 1}).ok());
  }
  const Manifest manifest = *DecodeManifest(*ReadSmallFile(dir / "out/manifest"), "m");
  EXPECT_EQ(manifest.files[0].path, "a/tiles");
  EXPECT_EQ(manifest.files[1].path, other / "tiles");
  EXPECT_EQ(manifest.files[2].path, "b/c/tiles");
  std::filesystem::rename(dir / "out", dir / "moved");
  std::filesystem::rename(other / "tiles", other / "kept");
  std::filesystem::create_directories(dir / "out/a");
  std::filesystem::create_directories(dir / "out/b/c");
  WriteEverything(*create(), 2);
  std::filesystem::rename(other / "kept", other / "tiles");
  CommitRecord record;
  auto store = SwapStore::Open(dir / "moved/manifest", /*read_only=*/false, {}, &record);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->directories(),
            (std::vector<std::string>{dir / "moved/a", other.path(), dir / "moved/b/c"}));
  EXPECT_EQ(ReadEverything(**store, 1), absl::OkStatus());
  WriteEverything(**store, 3);
  ASSERT_TRUE((*store)->Commit(dir / "moved/manifest", {.step = 3}).ok());
  store = SwapStore::Open(dir / "moved/manifest", /*read_only=*/true, {}, &record);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(ReadEverything(**store, 3), absl::OkStatus());
}

// Earlier versions named all files from the root.
TEST(SwapStore, AFileThatIsMissingIsFoundBesideTheManifestOnce) {
  ScratchDirectory dir;
  for (const char* name : {"out", "out/run", "swap", "swap/run"}) {
    std::filesystem::create_directory(dir / name);
  }
  {
    auto store = CreateStore({.directories = {dir / "out/run", dir / "swap/run"}});
    WriteEverything(*store, 1);
    ASSERT_TRUE(store->Commit(dir / "out/manifest", {.step = 1}).ok());
  }
  Manifest manifest = *DecodeManifest(*ReadSmallFile(dir / "out/manifest"), "m");
  manifest.files[0].path = dir / "out/run/tiles";
  ASSERT_TRUE(WriteFileAtomically(dir / "out/manifest", *EncodeManifest(manifest)).ok());
  std::filesystem::rename(dir / "out", dir / "moved");
  CommitRecord record;
  const auto open = [&] { return SwapStore::Open(dir / "moved/manifest", true, {}, &record); };
  auto store = open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->directories(),
            (std::vector<std::string>{dir / "moved/run", dir / "swap/run"}));
  EXPECT_EQ(ReadEverything(**store, 1), absl::OkStatus());
  // Of two that are missing it can be one only.
  std::filesystem::rename(dir / "swap", dir / "gone");
  store = open();
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(store.status().message(), HasSubstr(dir / "swap/run/tiles is missing"));
  std::filesystem::rename(dir / "gone", dir / "swap");
  std::filesystem::remove(dir / "moved/run/tiles");
  store = open();
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(store.status().message(), HasSubstr(dir / "out/run/tiles is missing"));
}

TEST(SwapStore, RoomForWhatIsSpilledMayChangeBetweenRuns) {
  ScratchDirectory dir;
  {
    auto store = CreateStore({{dir.path()}, true, {{true, false, false, false}, {0, 8192, 0, 0}}});
    WriteEverything(*store, 1);
    ASSERT_TRUE(store->Commit(dir / "manifest", {}).ok());
  }
  const StateLayout layout = SmallLayout();
  for (const SpillRoom& spill :
       {SpillRoom{{true, true, true, true}, {0, 4096, 1 << 20, 4096}}, SpillRoom{}}) {
    CommitRecord record;
    auto store = SwapStore::Open(dir / "manifest", false, spill, &record);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(std::filesystem::file_size(dir / "tiles"),
              SwapStore::StorageBytes(layout, {{dir.path()}, true, spill}));
    for (int unit = 0; unit < spill.activation_bytes.size(); ++unit) {
      for (int i = 0; i < (*store)->NumPieces(unit); ++i) {
        const uint64_t size_bytes = (*store)->PieceBytes(unit, i);
        AlignedBuffer zeros = Allocate(size_bytes);
        std::memset(zeros.get(), 0, size_bytes);
        WriteAt((*store)->ActivationPiece(unit, i), zeros.get(), size_bytes);
      }
    }
    for (int unit = 0; unit < spill.gradients.size(); ++unit) {
      for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
        const uint64_t size_bytes = layout.GradientBytes(unit, tile);
        AlignedBuffer zeros = Allocate(size_bytes);
        std::memset(zeros.get(), 0, size_bytes);
        WriteAt((*store)->GradientTile(unit, tile), zeros.get(), size_bytes);
      }
    }
    EXPECT_TRUE(ReadEverything(**store, 1).ok()) << ReadEverything(**store, 1);
  }
}

TEST(SwapStore, ExtentsAreTheCurrentState) {
  ScratchDirectory dir;
  auto store = CreateStore({.directories = {dir.path()}});
  EXPECT_TRUE(store->Extents().empty());
  WriteTile(*store, 1, 2, 1, 3, 1);
  const std::vector<ExtentInfo> extents = store->Extents();
  ASSERT_EQ(extents.size(), 2);
  EXPECT_EQ(extents[0].plane, Plane::kResidual);
  EXPECT_EQ(extents[1].plane, Plane::kExpAvg);
  EXPECT_EQ(extents[1].offset_bytes, store->CurrentTile(1, 2, 2, 3).offset_bytes);
  EXPECT_EQ(extents[1].size_bytes, 2048 * 4);
  EXPECT_EQ(extents[1].file, dir / "tiles");
  WriteEverything(*store, 2);
  EXPECT_EQ(store->Extents().size(), (2 + 3 + 3) * 4);
}

TEST(SwapStore, AFileInTheWayIsKeptAndNothingElseIsLeft) {
  ScratchDirectory a, b;
  auto theirs = CreateStore({.directories = {b.path()}});
  const absl::Status status =
      SwapStore::Create(SmallLayout(), {.directories = {a.path(), b.path()}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(status.message(), HasSubstr(b / "tiles"));
  EXPECT_TRUE(std::filesystem::is_empty(a.path()));
  EXPECT_TRUE(std::filesystem::exists(b / "tiles"));
}

TEST(SwapStore, LeftoversAreRemovedByNameOnly) {
  ScratchDirectory dir;
  { CreateStore({.directories = {dir.path()}}); }
  ASSERT_TRUE(WriteFileAtomically(dir / "tiles.notes", "mine").ok());
  EXPECT_TRUE(SwapStore::RemoveLeftovers(dir.path()).ok());
  EXPECT_TRUE(SwapStore::RemoveLeftovers(dir.path()).ok());  // nothing there is fine
  EXPECT_FALSE(std::filesystem::exists(dir / "tiles"));
  EXPECT_TRUE(std::filesystem::exists(dir / "tiles.notes"));
  CreateStore({.directories = {dir.path()}});
}

TEST(SwapStore, OpeningNamesWhatIsWrong) {
  ScratchDirectory dir;
  const std::string manifest_path = dir / "manifest";
  CommitRecord record;
  EXPECT_EQ(SwapStore::Open(manifest_path, true, {}, &record).status().code(),
            absl::StatusCode::kNotFound);
  auto store = CreateStore({.directories = {dir.path()}});
  WriteEverything(*store, 1);
  ASSERT_TRUE(store->Commit(manifest_path, {}).ok());

  const uint64_t size_bytes = std::filesystem::file_size(dir / "tiles");
  std::filesystem::resize_file(dir / "tiles", size_bytes - 1);
  absl::Status status = SwapStore::Open(manifest_path, true, {}, &record).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("was cut"));

  store->Remove();
  status = SwapStore::Open(manifest_path, true, {}, &record).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("tiles is missing"));

  ASSERT_TRUE(WriteFileAtomically(manifest_path, "nonsense").ok());
  status = SwapStore::Open(manifest_path, true, {}, &record).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr(manifest_path));
}

// A manifest is followed to swap files only: whatever it names would be written to.
TEST(SwapStore, AManifestCannotNameAnotherFile) {
  ScratchDirectory dir;
  auto store = CreateStore({.directories = {dir.path()}});
  WriteEverything(*store, 1);
  ASSERT_TRUE(store->Commit(dir / "manifest", {}).ok());
  Manifest manifest = *DecodeManifest(*ReadSmallFile(dir / "manifest"), "m");
  std::filesystem::rename(dir / "tiles", dir / "thesis");
  manifest.files[0].path = dir / "thesis";
  ASSERT_TRUE(WriteFileAtomically(dir / "manifest", *EncodeManifest(manifest)).ok());
  CommitRecord record;
  EXPECT_EQ(SwapStore::Open(dir / "manifest", false, {}, &record).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(SwapStoreDeathTest, MisuseIsOurMistake) {
  ScratchDirectory dir;
  auto store = CreateStore({.directories = {dir.path()}});
  EXPECT_DEATH(store->CurrentTile(0, 0, 0, 4), "");             // never written
  EXPECT_DEATH((void)store->Commit(dir / "manifest", {}), "");  // likewise
  WriteEverything(*store, 1);
  ASSERT_TRUE(store->Commit(dir / "manifest", {}).ok());
  WriteTile(*store, 0, 0, 1, 4, 2);
  EXPECT_DEATH(store->CurrentTile(0, 0, 0, 4), "");             // in two slots
  EXPECT_DEATH((void)store->Commit(dir / "manifest", {}), "");  // likewise
  store->MarkStale(1, 0, 0, 1);
  EXPECT_DEATH(store->CurrentTile(1, 0, 0, 1), "");
  EXPECT_DEATH(store->WritableTile(1, 3, 0), "");
}

TEST(SwapStoreDeathTest, WhatIsSpilledIsNotRecordedOverWhatIsNewer) {
  ScratchDirectory dir;
  StoreOptions options{.directories = {dir.path()}};
  options.spill.gradients = {true, false, false, false};
  options.spill.activation_bytes = {8192, 0, 0, 0};
  auto store = CreateStore(options);
  WriteEverything(*store, 3);
  store->RecordGradientWrite(0, 0, 1, 3);
  EXPECT_DEATH(store->RecordGradientWrite(0, 0, 1, 2), "generation >= ");
  EXPECT_DEATH(store->RecordGradientWrite(1, 0, 1, 2), "has_gradient");
  store->RecordPieceWrite(0, 0, 1, 3);
  EXPECT_DEATH(store->RecordPieceWrite(0, 0, 1, 2), "generation >= ");
  EXPECT_DEATH(store->RecordPieceWrite(1, 0, 1, 4), "piece < NumPieces");
  EXPECT_DEATH(store->ActivationPiece(0, 7), "piece < NumPieces");
}

TEST(SwapStoreDeathTest, ACommitEndsOnlyWhenItIsDurable) {
  ScratchDirectory dir;
  auto store = CreateStore({.directories = {dir.path()}});
  WriteEverything(*store, 1);
  EXPECT_DEATH(store->EndCommit(), "commit_phase_");
  EXPECT_DEATH(store->GiveUpCommit(), "commit_phase_");
  const auto begun = store->BeginCommit(dir / "manifest", {.step = 1});
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_DEATH(store->EndCommit(), "commit_phase_");
  EXPECT_DEATH(WriteTile(*store, 0, 0, 0, 4, 2), "!committing");
  ASSERT_TRUE(store->MakeDurable(*begun).ok());
  EXPECT_DEATH((void)store->MakeDurable(*begun), "commit_phase_");
  store->EndCommit();
  EXPECT_DEATH(store->EndCommit(), "commit_phase_");
}

}  // namespace
}  // namespace spillway
