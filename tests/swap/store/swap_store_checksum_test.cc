// Bytes that are not those that were written last are found when they are read.
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/checksum.h"
#include "swap/store/swap_store.h"
#include "tests/swap/store/store_fixture.h"

namespace spillway {
namespace {

using testing::HasSubstr;

TEST(SwapStore, SpilledGradientsAreVerified) {
  ScratchDirectory dir;
  auto store = CreateStore({{dir.path()}, false, {{true, false, false, false}}});
  const uint64_t data = 42;
  const uint64_t sum = Checksum(store->GradientIdentity(0, 1, 3), &data, 8);
  store->RecordGradientWrite(0, 1, sum, 3);
  EXPECT_EQ(store->GradientGeneration(0, 1), 3);
  EXPECT_TRUE(store->VerifyGradientChecksum(0, 1, sum).ok());
  const uint64_t other = Checksum(store->GradientIdentity(0, 1, 2), &data, 8);
  const absl::Status status = store->VerifyGradientChecksum(0, 1, other);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("plane grad, tile 1, generation 3"));
  EXPECT_DEATH(store->GradientTile(1, 0), "");
}

TEST(SwapStore, SpilledActivationsAreVerified) {
  ScratchDirectory dir;
  const uint64_t piece_bytes = SwapStore::PieceBytes(SmallLayout());
  auto store = CreateStore({{dir.path()}, false, {{}, {0, piece_bytes + 4096, 4096, 0}}});
  ASSERT_EQ(store->NumPieces(0), 0);
  ASSERT_EQ(store->NumPieces(1), 2);
  EXPECT_EQ(store->PieceBytes(1, 0), piece_bytes);
  EXPECT_EQ(store->PieceBytes(1, 1), 4096u);
  const std::string data(4096, 'x'), other(4096, 'y');
  store->RecordPieceWrite(1, 1, Checksum(SwapStore::PieceIdentity(1, 1, 3), data.data(), 4096), 3);
  EXPECT_EQ(store->VerifyPiece(1, 1, data.data()), absl::OkStatus());
  const absl::Status status = store->VerifyPiece(1, 1, other.data());
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("plane activation, piece 1, generation 3"));
  EXPECT_THAT(status.message(), HasSubstr(dir / "tiles"));
  // The same bytes of a step before, or of another place.
  for (const ChecksumIdentity& stale :
       {SwapStore::PieceIdentity(1, 1, 2), SwapStore::PieceIdentity(1, 0, 3),
        SwapStore::PieceIdentity(2, 1, 3)}) {
    store->RecordPieceWrite(1, 1, Checksum(stale, data.data(), 4096), 3);
    EXPECT_EQ(store->VerifyPiece(1, 1, data.data()).code(), absl::StatusCode::kDataLoss);
  }
}

TEST(SwapStore, OneFlippedBitIsFound) {
  ScratchDirectory dir;
  auto store = CreateStore({.directories = {dir.path()}});
  WriteEverything(*store, 1);
  const TileLocation where = store->CurrentTile(2, 1, 3, 4);
  const uint64_t size_bytes = store->layout().PlaneBytes(2, 1, 3);
  AlignedBuffer buffer = Allocate(size_bytes);
  ReadAt(where, buffer.get(), size_bytes);
  buffer.get()[1234] ^= 16;
  WriteAt(where, buffer.get(), size_bytes);
  const absl::Status status = ReadEverything(*store, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("unit 2 (block.1), plane exp_avg_sq, tile 1"));
  EXPECT_THAT(status.message(),
              HasSubstr(absl::StrCat(dir / "tiles", " at offset ", where.offset_bytes)));
}

// Two tiles with each other's bytes, both as they were written.
TEST(SwapStore, AMisplacedTileIsFound) {
  ScratchDirectory dir;
  auto store = CreateStore({.directories = {dir.path()}});
  WriteEverything(*store, 1);
  const uint64_t size_bytes = store->layout().TileBytes(1, 0);
  AlignedBuffer first = Allocate(size_bytes), second = Allocate(size_bytes);
  ReadAt(store->CurrentTile(1, 0, 0, 4), first.get(), size_bytes);
  ReadAt(store->CurrentTile(1, 1, 0, 4), second.get(), size_bytes);
  WriteAt(store->CurrentTile(1, 0, 0, 4), second.get(), size_bytes);
  WriteAt(store->CurrentTile(1, 1, 0, 4), first.get(), size_bytes);
  EXPECT_EQ(ReadPlane(*store, 1, 0, 0, 1).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadPlane(*store, 1, 1, 3, 1).code(), absl::StatusCode::kDataLoss);
}

// The same bytes have another checksum in every place and generation.
TEST(SwapStore, IdentityIsPartOfTheChecksum) {
  ScratchDirectory dir;
  auto store = CreateStore({.directories = {dir.path()}});
  const uint64_t data = 0;
  const auto sum = [&](const ChecksumIdentity& identity) { return Checksum(identity, &data, 8); };
  const uint64_t base = sum(store->PlaneIdentity(1, 1, 1, 1));
  EXPECT_NE(base, sum(store->PlaneIdentity(2, 1, 1, 1)));
  EXPECT_NE(base, sum(store->PlaneIdentity(1, 2, 1, 1)));
  EXPECT_NE(base, sum(store->PlaneIdentity(1, 1, 2, 1)));
  EXPECT_NE(base, sum(store->PlaneIdentity(1, 1, 1, 2)));
  EXPECT_NE(base, sum(store->GradientIdentity(1, 1, 1)));
}

// A write that was lost: the device confirmed it and still has the bytes before.
TEST(SwapStore, AStaleGenerationIsFound) {
  ScratchDirectory dir;
  auto store = CreateStore({.directories = {dir.path()}, .two_slots = false});
  WriteEverything(*store, 1);
  const uint64_t size_bytes = store->layout().TileBytes(0, 0);
  AlignedBuffer before = Allocate(size_bytes);
  ReadAt(store->CurrentTile(0, 0, 0, 4), before.get(), size_bytes);
  WriteTile(*store, 0, 0, 0, 4, 2);
  EXPECT_TRUE(ReadPlane(*store, 0, 0, 1, 2).ok());
  WriteAt(store->CurrentTile(0, 0, 0, 4), before.get(), size_bytes);
  EXPECT_EQ(ReadPlane(*store, 0, 0, 1, 2).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace spillway
