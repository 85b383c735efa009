#include "swap/mover/whole_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/io/forwarding_file_system.h"
#include "tests/swap/store/model_files.h"
#include "tests/swap/store/store_fixture.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The machine's file system, of which a test sees what its engines have in flight.
class WatchedFiles final : public ForwardingFileSystem {
 public:
  bool threads = true;
  // What a transfer is to come back with, instead of OK.
  std::function<absl::Status(const IoRequest&)> fault;

  uint64_t most_bytes = 0;          // submitted and not back, at once
  size_t most_files = 0;            // of them
  uint64_t requests = 0;            // so far
  uint64_t pending_at_the_end = 0;  // of any engine
  int engines = 0;                  // that live

  absl::StatusOr<std::unique_ptr<IoEngine>> CreateEngine(const IoEngineOptions& options) override {
    ASSIGN_OR_RETURN(auto engine, Real().CreateEngine(options));
    return std::make_unique<Engine>(*this, std::move(engine));
  }
  bool may_start_threads() const override { return threads; }

 private:
  class Engine final : public IoEngine {
   public:
    Engine(WatchedFiles& files, std::unique_ptr<IoEngine> engine)
        : files_(files), engine_(std::move(engine)) {
      ++files_.engines;
    }
    ~Engine() override {
      --files_.engines;
      files_.pending_at_the_end += engine_->pending();
    }
    void Submit(IoRequest* request) override {
      EXPECT_EQ(request->offset_bytes % request->file->alignment_bytes(), 0u);
      EXPECT_EQ(request->size_bytes % request->file->alignment_bytes(), 0u);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(request->data) % 4096, 0u);
      in_flight_[request] = {request->done, request->context};
      ++files_.requests;
      uint64_t bytes = 0;
      std::set<const File*> at_work;
      for (const auto& [other, caller] : in_flight_) {
        bytes += other->size_bytes;
        at_work.insert(other->file);
      }
      files_.most_bytes = std::max(files_.most_bytes, bytes);
      files_.most_files = std::max(files_.most_files, at_work.size());
      request->context = this;
      request->done = [](IoRequest& request, const absl::Status& status) {
        static_cast<Engine*>(request.context)->Back(request, status);
      };
      engine_->Submit(request);
    }
    size_t Poll(absl::Duration timeout) override { return engine_->Poll(timeout); }
    void Wake() override { engine_->Wake(); }
    size_t pending() const override { return engine_->pending(); }
    absl::string_view name() const override { return engine_->name(); }
    IoStats stats() const override { return engine_->stats(); }

   private:
    void Back(IoRequest& request, absl::Status status) {
      const auto [done, context] = in_flight_.extract(&request).mapped();
      request.done = done;
      request.context = context;
      if (status.ok() && files_.fault) status = files_.fault(request);
      done(request, status);
    }

    WatchedFiles& files_;
    const std::unique_ptr<IoEngine> engine_;
    std::map<IoRequest*, std::pair<void (*)(IoRequest&, const absl::Status&), void*>> in_flight_;
  };
};

StateLayout LayoutOf(std::vector<UnitLayout> units, uint64_t tile_parameters) {
  return StateLayout(
      std::move(units),
      {{Plane::kWeight, 2}, {Plane::kResidual, 2}, {Plane::kExpAvg, 4}, {Plane::kExpAvgSq, 4}}, 2,
      tile_parameters);
}

// With threads that check and, as in the simulation, without.
class WholeStore : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { files_.threads = GetParam(); }
  // Nothing is left behind, however a call ended.
  void TearDown() override {
    EXPECT_EQ(files_.pending_at_the_end, 0u);
    EXPECT_EQ(files_.engines, 0);
  }

  std::unique_ptr<SwapStore> Create(const StateLayout& layout,
                                    std::vector<std::string> directories) {
    StoreOptions options;
    options.directories = std::move(directories);
    options.files = &files_;
    auto store = SwapStore::Create(layout, options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  // Every tile of it written, as of generations that differ.
  std::unique_ptr<SwapStore> CreateFull(const StateLayout& layout,
                                        std::vector<std::string> directories) {
    auto store = Create(layout, std::move(directories));
    for (int unit = 0; unit < layout.num_units(); ++unit) {
      for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
        WriteTile(*store, unit, tile, 0, layout.NumPlanes(unit), GenerationOf(unit, tile));
      }
    }
    return store;
  }

  static uint64_t GenerationOf(int unit, int tile) { return 1 + unit + 3 * tile; }

  static bool IsRight(const StateLayout& layout, const TileView& tile, int plane) {
    const uint64_t size_bytes = layout.PlaneBytes(tile.unit, tile.tile, plane);
    const AlignedBuffer expected = Allocate(size_bytes);
    FillPlane(layout, tile.unit, tile.tile, plane, GenerationOf(tile.unit, tile.tile),
              expected.get());
    return std::memcmp(tile.planes[plane], expected.get(), size_bytes) == 0;
  }

  // Reads planes [first, last) and holds every visit to what it should be; how many there were.
  int ReadAndCompare(const SwapStore& store, int first, int last) {
    const StateLayout& layout = store.layout();
    const std::thread::id caller = std::this_thread::get_id();
    int visits = 0, unit = 0, tile = 0;
    const absl::Status status = ReadStore(store, first, last, [&](const TileView& view) {
      while (tile == layout.NumTiles(unit)) ++unit, tile = 0;
      EXPECT_EQ(view.unit, unit);
      EXPECT_EQ(view.tile, tile);
      EXPECT_EQ(view.first_parameter, layout.TileBegin(tile));
      EXPECT_EQ(view.parameters, layout.TileParameters(unit, tile));
      EXPECT_EQ(std::this_thread::get_id(), caller);
      for (int plane = 0; plane < layout.num_planes(); ++plane) {
        const bool there = plane >= first && plane < std::min(last, layout.NumPlanes(unit));
        EXPECT_EQ(view.planes[plane] != nullptr, there);
        EXPECT_TRUE(!there || IsRight(layout, view, plane))
            << "unit " << unit << " tile " << tile << " plane " << plane;
      }
      ++tile;
      ++visits;
      return absl::OkStatus();
    });
    EXPECT_EQ(status, absl::OkStatus());
    return visits;
  }

  // Changes a byte of what stands there.
  static void Damage(const TileLocation& at) {
    const int fd = open(at.file->path().c_str(), O_RDWR);
    char byte;
    ASSERT_EQ(pread(fd, &byte, 1, at.offset_bytes + 5), 1);
    byte ^= 1;
    ASSERT_EQ(pwrite(fd, &byte, 1, at.offset_bytes + 5), 1);
    close(fd);
  }

  WatchedFiles files_;
  ScratchDirectory one_, two_, three_;
};

INSTANTIATE_TEST_SUITE_P(, WholeStore, testing::Bool(), [](const auto& info) {
  return info.param ? "ThreadsCheck" : "TheCallerChecks";
});

TEST_P(WholeStore, TilesAreVisitedInOrderWithThePlanesAskedFor) {
  const StateLayout layout =
      LayoutOf({{"a", 5000}, {"none", 0}, {"frozen", 30000, true}, {"b", 90000}}, 4096);
  const auto store = CreateFull(layout, {one_.path(), two_.path()});
  const int tiles = 2 + 8 + 22;
  EXPECT_EQ(ReadAndCompare(*store, 0, 4), tiles);
  EXPECT_EQ(ReadAndCompare(*store, 0, 1), tiles);
  EXPECT_EQ(ReadAndCompare(*store, 1, 3), tiles);
  EXPECT_EQ(ReadAndCompare(*store, 0, 9), tiles);
  EXPECT_EQ(ReadAndCompare(*store, 2, 2), tiles);
}

TEST_P(WholeStore, AllDirectoriesAreReadAtOnce) {
  const StateLayout layout = LayoutOf({{"a", 3'000'000}}, 1 << 17);
  const auto store = CreateFull(layout, {one_.path(), two_.path(), three_.path()});
  ReadAndCompare(*store, 0, 4);
  EXPECT_EQ(files_.most_files, 3u);
  EXPECT_GE(files_.most_bytes, 16u << 20);
}

TEST_P(WholeStore, MemoryIsBounded) {
  const StateLayout layout = LayoutOf({{"a", 6'000'000}}, kDefaultTileParameters);
  ASSERT_GT(layout.TotalBytes(), 64u << 20);
  const auto store = CreateFull(layout, {one_.path()});
  const auto to = Create(layout, {two_.path()});
  ASSERT_EQ(CopyStore(*store, *to), absl::OkStatus());
  EXPECT_GE(files_.most_bytes, 16u << 20);
  EXPECT_LE(files_.most_bytes, 40u << 20);
  EXPECT_EQ(files_.most_files, 2u);  // reads and writes overlap
}

TEST_P(WholeStore, ManyTinyTilesAreReadAndCopied) {
  const StateLayout layout = LayoutOf({{"a", 700 * 2048}, {"b", 2048}}, 2048);
  const auto store = CreateFull(layout, {one_.path(), two_.path()});
  EXPECT_EQ(ReadAndCompare(*store, 0, 4), 701);
  const auto to = Create(layout, {three_.path()});
  ASSERT_EQ(CopyStore(*store, *to), absl::OkStatus());
  EXPECT_EQ(ReadAndCompare(*to, 0, 4), 701);
}

TEST_P(WholeStore, TilesLargerThanTheWindowAreReadAndCopied) {
  const StateLayout layout = LayoutOf({{"a", 5000}, {"huge", 7'000'000}, {"b", 5000}}, 3 << 20);
  ASSERT_GT(2 * layout.MaxTileBytes(), 40u << 20);
  const auto store = CreateFull(layout, {one_.path()});
  EXPECT_EQ(ReadAndCompare(*store, 0, 4), 5);
  const auto to = Create(layout, {two_.path()});
  ASSERT_EQ(CopyStore(*store, *to), absl::OkStatus());
  EXPECT_EQ(ReadAndCompare(*to, 0, 4), 5);
  EXPECT_LE(files_.most_bytes, 2 * layout.MaxTileBytes());
}

TEST_P(WholeStore, AStoreOfNothingIsReadAndCopied) {
  const StateLayout layout = LayoutOf({{"none", 0}}, 4096);
  const auto store = Create(layout, {one_.path()});
  EXPECT_EQ(ReadAndCompare(*store, 0, 4), 0);
  EXPECT_EQ(CopyStore(*store, *Create(layout, {two_.path()})), absl::OkStatus());
}

TEST_P(WholeStore, PlanesThatLieApartAreReadWhereTheyAre) {
  const StateLayout layout = LayoutOf({{"a", 20000}}, 4096);
  const auto store = CreateFull(layout, {one_.path()});
  ASSERT_EQ(store->Commit(one_ / "manifest", {}), absl::OkStatus());
  // Since that commit two planes of one tile were written again, to the other slot.
  const TileLocation before = store->CurrentTile(0, 2, 1, 3);
  WriteTile(*store, 0, 2, 1, 3, GenerationOf(0, 2));
  Damage(before);
  EXPECT_EQ(ReadAndCompare(*store, 0, 4), 5);
}

TEST_P(WholeStore, ACopyIsTheSameStateUnderTheSameGenerations) {
  const StateLayout layout = LayoutOf({{"a", 5000}, {"frozen", 30000, true}, {"b", 90000}}, 4096);
  const auto store = CreateFull(layout, {one_.path(), two_.path()});
  auto to = Create(layout, {three_.path()});
  ASSERT_EQ(CopyStore(*store, *to), absl::OkStatus());
  ASSERT_EQ(to->Commit(three_ / "manifest", {}), absl::OkStatus());
  CommitRecord record;
  const auto copy = SwapStore::Open(three_ / "manifest", true, {}, &record, files_);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(ReadAndCompare(**copy, 0, 4), 2 + 8 + 22);
  EXPECT_EQ((*copy)->CurrentGeneration(2, 7, 3), GenerationOf(2, 7));
}

TEST_P(WholeStore, TheFirstDamagedTileInOrderIsNamedAndAllBeforeItAreVisited) {
  const StateLayout layout = LayoutOf({{"a", 5000}, {"b", 300 * 4096}}, 4096);
  const auto store = CreateFull(layout, {one_.path(), two_.path()});
  for (const int tile : {299, 120, 119}) Damage(store->CurrentTile(1, tile, 2, 3));
  int visits = 0;
  absl::Status status = ReadStore(*store, 0, 4, [&](const TileView&) {
    ++visits;
    return absl::OkStatus();
  });
  const auto named = AllOf(HasSubstr("unit 1 (b), plane exp_avg, tile 119,"),
                           HasSubstr(store->CurrentTile(1, 119, 0, 1).file->path()));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), named);
  EXPECT_EQ(visits, 2 + 119);
  // Planes that nobody asks for are not looked at.
  EXPECT_EQ(ReadAndCompare(*store, 0, 2), 302);

  const auto to = Create(layout, {three_.path()});
  status = CopyStore(*store, *to);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), named);
  EXPECT_TRUE(to->IsStale(1, 119, 2));
}

TEST_P(WholeStore, AReadThatFailsIsNamedWithItsFileAndTile) {
  const StateLayout layout = LayoutOf({{"a", 5000}, {"b", 300 * 4096}}, 4096);
  const auto store = CreateFull(layout, {one_.path()});
  files_.fault = [](const IoRequest& request) {
    return request.unit == 1 && (request.tile == 40 || request.tile == 41)
               ? ErrnoStatus(EIO, absl::StrCat("read from ", request.file->path()))
               : absl::OkStatus();
  };
  int visits = 0;
  const absl::Status status = ReadStore(*store, 0, 4, [&](const TileView&) {
    ++visits;
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("unit 1 (b), tile 40: "), HasSubstr(one_ / "tiles")));
  EXPECT_EQ(visits, 2 + 40);
}

TEST_P(WholeStore, AWriteThatFailsIsNamedWithItsFileAndTile) {
  const StateLayout layout = LayoutOf({{"a", 5000}, {"b", 300 * 4096}}, 4096);
  const auto store = CreateFull(layout, {one_.path()});
  const auto to = Create(layout, {two_.path()});
  files_.fault = [](const IoRequest& request) {
    return request.op == IoOp::kWrite && request.unit == 1 && request.tile == 299
               ? ErrnoStatus(ENOSPC, absl::StrCat("write to ", request.file->path()))
               : absl::OkStatus();
  };
  const absl::Status status = CopyStore(*store, *to);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("unit 1 (b), tile 299: "), HasSubstr(two_ / "tiles")));
  EXPECT_TRUE(to->IsStale(1, 299, 0));
  EXPECT_FALSE(to->IsStale(1, 298, 0));
}

TEST_P(WholeStore, AVisitThatFailsEndsTheReading) {
  const StateLayout layout = LayoutOf({{"a", 3'000'000}}, 1 << 17);
  const auto store = CreateFull(layout, {one_.path()});
  int visits = 0;
  const absl::Status status = ReadStore(*store, 0, 4, [&](const TileView&) {
    return ++visits == 3 ? absl::CancelledError("enough") : absl::OkStatus();
  });
  EXPECT_EQ(status, absl::CancelledError("enough"));
  EXPECT_EQ(visits, 3);
}

TEST_P(WholeStore, TilesOfSeveralStoresComeInTheOrderAskedFor) {
  const StateLayout layout = LayoutOf({{"a", 9000}, {"b", 9000}}, 4096);
  const auto first = CreateFull(layout, {one_.path()}), second = CreateFull(layout, {two_.path()});
  const std::vector<StoredTile> tiles = {
      {first.get(), 1, 2}, {second.get(), 0, 0}, {first.get(), 1, 2}, {second.get(), 1, 1}};
  std::vector<std::pair<const SwapStore*, int>> seen;
  ASSERT_EQ(ReadTiles(tiles, 0, 4,
                      [&](const StoredTile& stored, const TileView& tile) {
                        EXPECT_TRUE(IsRight(layout, tile, 3));
                        EXPECT_EQ(tile.unit, stored.unit);
                        seen.emplace_back(stored.store, tile.tile);
                        return absl::OkStatus();
                      }),
            absl::OkStatus());
  EXPECT_THAT(seen, testing::ElementsAre(std::pair(first.get(), 2), std::pair(second.get(), 0),
                                         std::pair(first.get(), 2), std::pair(second.get(), 1)));
}

// Units in the model's files: read from there in between, and not copied.
class WholeStoreInPlace : public WholeStore {
 protected:
  void SetUp() override {
    WholeStore::SetUp();
    std::mt19937_64 random(7);
    weights_.resize(layout_.num_units());
    for (const int unit : {1, 2}) {
      weights_[unit].resize(layout_.UnitBytes(unit));
      for (char& byte : weights_[unit]) byte = static_cast<char>(random());
      std::fill_n(weights_[unit].begin() + 3000, 20000, '\0');  // two tiles are nothing else
      std::fill_n(weights_[unit].end() - 2100, 2100, '\0');
    }
    options_.directories = {one_.path()};
    options_.files = &files_;
    options_.in_place = WriteModelFiles(model_.path(), weights_, 3);
    for (const int unit : {1, 2}) {
      std::erase_if(options_.in_place.units[unit], [&](const FilePiece& piece) {
        return piece.unit_offset >= 3000 && piece.unit_offset + piece.size_bytes <= 23000;
      });
    }
    auto store = SwapStore::Create(layout_, options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    for (const int unit : {0, 3}) {
      for (int tile = 0; tile < layout_.NumTiles(unit); ++tile) {
        WriteTile(*store_, unit, tile, 0, layout_.NumPlanes(unit), GenerationOf(unit, tile));
      }
    }
  }

  absl::Status Compare(const SwapStore& store) {
    return ReadStore(store, 0, 2, [&](const TileView& tile) {
      if (weights_[tile.unit].empty()) {
        EXPECT_TRUE(IsRight(layout_, tile, 0)) << tile.unit << " " << tile.tile;
      } else {
        EXPECT_EQ(std::memcmp(tile.planes[0],
                              weights_[tile.unit].data() + layout_.PlaneBegin(tile.tile, 0),
                              layout_.PlaneBytes(tile.unit, tile.tile, 0)),
                  0)
            << tile.unit << " " << tile.tile;
      }
      return absl::OkStatus();
    });
  }

  const StateLayout layout_{{{"trained", 5000},
                             {"base", 400'000, /*frozen=*/true},
                             {"base.1", 90'000, /*frozen=*/true},
                             {"converted", 3000, /*frozen=*/true}},
                            {{Plane::kWeight, 2}, {Plane::kExpAvg, 4}},
                            2,
                            4096};
  ScratchDirectory model_;
  std::vector<std::string> weights_;
  StoreOptions options_;
  std::unique_ptr<SwapStore> store_;
};

INSTANTIATE_TEST_SUITE_P(, WholeStoreInPlace, testing::Bool(), [](const auto& info) {
  return info.param ? "ThreadsCheck" : "TheCallerChecks";
});

TEST_P(WholeStoreInPlace, TheirTilesComeFromTheModelsFiles) {
  EXPECT_EQ(Compare(*store_), absl::OkStatus());
  EXPECT_EQ(Compare(*store_), absl::OkStatus());  // against the checksums of the first time
}

TEST_P(WholeStoreInPlace, TheyAreNotCopiedWhereTheCopyReadsThemInPlaceToo) {
  options_.directories = {two_.path()};
  const auto to = SwapStore::Create(layout_, options_);
  ASSERT_TRUE(to.ok()) << to.status();
  files_.requests = 0;
  ASSERT_EQ(CopyStore(*store_, **to), absl::OkStatus());
  EXPECT_EQ(files_.requests, 2 * (2 + 1));
  EXPECT_EQ(Compare(**to), absl::OkStatus());
}

TEST_P(WholeStoreInPlace, TheyAreCopiedWhereTheCopyHasThem) {
  const auto to = Create(layout_, {two_.path()});
  // In so little memory all of it is used again and again.
  ASSERT_EQ(CopyStore(*store_, *to, 64 << 10), absl::OkStatus());
  EXPECT_EQ(Compare(*to), absl::OkStatus());
}

TEST_P(WholeStoreInPlace, OtherBytesAndAFileThatWasCutAreNamed) {
  ASSERT_EQ(Compare(*store_), absl::OkStatus());
  const FilePiece& piece = options_.in_place.units[2][0];
  const std::string path = options_.in_place.files[piece.file].path;
  const int fd = open(path.c_str(), O_RDWR);
  const char other = static_cast<char>(weights_[2][piece.unit_offset] ^ 1);
  ASSERT_EQ(pwrite(fd, &other, 1, piece.file_offset), 1);
  close(fd);
  absl::Status status = Compare(*store_);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("unit 2 (base.1)"), HasSubstr(path)));

  std::filesystem::resize_file(path, 10);
  status = ReadStore(*store_, 0, 2, [](const TileView&) { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));

  std::filesystem::remove(path);
  ASSERT_EQ(store_->Commit(one_ / "manifest", {}), absl::OkStatus());
  CommitRecord record;
  const auto opened = SwapStore::Open(one_ / "manifest", true, {}, &record, files_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  status = ReadStore(**opened, 0, 2, [](const TileView&) { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path), HasSubstr("is missing")));
}

TEST(TileWindowDeathTest, ATileIsGivenBackOnce) {
  ScratchDirectory dir;
  const auto store = CreateStore({.directories = {dir.path()}});
  WriteEverything(*store, 1);
  const auto with_window = [&](const std::function<void(TileWindow&)>& use) {
    auto window = TileWindow::Create({{store.get(), 0, 0}, {store.get(), 1, 0}}, 0, 2, 1 << 20);
    SPILLWAY_CHECK(window.ok());
    use(**window);
  };
  EXPECT_DEATH(with_window([](TileWindow& window) {
                 for (int i = 0; i < 2; ++i) (void)window.Next();
               }),
               "WindowTile::State::kReady");
  EXPECT_DEATH(with_window([](TileWindow& window) {
                 WindowTile* const tile = *window.Next();
                 for (int i = 0; i < 2; ++i) window.Release(tile);
               }),
               "WindowTile::State::kReady");
  EXPECT_DEATH(with_window([](TileWindow& window) { (*window.Next())->plane(2); }),
               "index < last_plane_");
}

}  // namespace
}  // namespace spillway
