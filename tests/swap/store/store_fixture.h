// What tests of the swap store share: a directory of their own, contents that say
// what they are, and plain reads and writes at the places that the store names.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "swap/store/swap_store.h"
#include "tests/scratch_directory.h"

namespace spillway {

struct FreeDeleter {
  void operator()(char* data) const { std::free(data); }
};
using AlignedBuffer = std::unique_ptr<char, FreeDeleter>;

inline AlignedBuffer Allocate(uint64_t size_bytes) {
  return AlignedBuffer(static_cast<char*>(std::aligned_alloc(4096, size_bytes)));
}

// Twelve bytes a parameter, tiles of different sizes, a unit without any.
inline StateLayout SmallLayout() {
  return StateLayout(
      {{"embedding", 5000}, {"block.0", 9000}, {"block.1", 9000}, {"head", 0}},
      {{Plane::kWeight, 2}, {Plane::kResidual, 2}, {Plane::kExpAvg, 4}, {Plane::kExpAvgSq, 4}}, 2,
      4096);
}

inline std::unique_ptr<SwapStore> CreateStore(const StoreOptions& options) {
  auto store = SwapStore::Create(SmallLayout(), options);
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

// The bytes of a plane at a generation: different for every plane and generation.
inline void FillPlane(const StateLayout& layout, int unit, int tile, int plane, uint64_t generation,
                      char* data) {
  uint64_t value = ((generation * 31 + unit) * 31 + tile) * 31 + plane;
  const uint64_t size_bytes = layout.PlaneBytes(unit, tile, plane);
  for (uint64_t at = 0; at < size_bytes; at += 8) {
    value = value * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(data + at, &value, 8);
  }
}

inline void WriteAt(const TileLocation& where, const char* data, uint64_t size_bytes) {
  SPILLWAY_CHECK(pwrite(where.file->fd(), data, size_bytes, where.offset_bytes) == size_bytes);
}

inline void ReadAt(const TileLocation& where, char* data, uint64_t size_bytes) {
  SPILLWAY_CHECK(pread(where.file->fd(), data, size_bytes, where.offset_bytes) == size_bytes);
}

// Writes planes [first, last) of a tile at `generation`, as the swap manager does.
inline void WriteTile(SwapStore& store, int unit, int tile, int first, int last,
                      uint64_t generation) {
  const StateLayout& layout = store.layout();
  const uint64_t begin = layout.PlaneOffset(unit, tile, first);
  const uint64_t end = last == layout.NumPlanes(unit) ? layout.TileBytes(unit, tile)
                                                      : layout.PlaneOffset(unit, tile, last);
  AlignedBuffer buffer = Allocate(end - begin);
  std::vector<uint64_t> checksums;
  for (int plane = first; plane < last; ++plane) {
    char* data = buffer.get() + layout.PlaneOffset(unit, tile, plane) - begin;
    FillPlane(layout, unit, tile, plane, generation, data);
    checksums.push_back(Checksum(store.PlaneIdentity(unit, tile, plane, generation), data,
                                 layout.PlaneBytes(unit, tile, plane)));
  }
  WriteAt(store.WritableTile(unit, tile, first), buffer.get(), end - begin);
  store.RecordWrite(unit, tile, first, checksums, generation);
}

inline void WriteEverything(SwapStore& store, uint64_t generation) {
  for (int unit = 0; unit < store.layout().num_units(); ++unit) {
    for (int tile = 0; tile < store.layout().NumTiles(unit); ++tile) {
      WriteTile(store, unit, tile, 0, store.layout().num_planes(), generation);
    }
  }
}

// Reads one plane of the current state, verifies it, and compares it with what
// `generation` stands for.
inline absl::Status ReadPlane(const SwapStore& store, int unit, int tile, int plane,
                              uint64_t generation) {
  const uint64_t size_bytes = store.layout().PlaneBytes(unit, tile, plane);
  AlignedBuffer buffer = Allocate(size_bytes), expected = Allocate(size_bytes);
  ReadAt(store.CurrentTile(unit, tile, plane, plane + 1), buffer.get(), size_bytes);
  RETURN_IF_ERROR(store.Verify(unit, tile, plane, buffer.get()));
  if (store.CurrentGeneration(unit, tile, plane) != generation) {
    return absl::InternalError(absl::StrCat(
        "generation ", store.CurrentGeneration(unit, tile, plane), ", expected ", generation));
  }
  FillPlane(store.layout(), unit, tile, plane, generation, expected.get());
  if (std::memcmp(buffer.get(), expected.get(), size_bytes) != 0) {
    return absl::InternalError("verified, but other bytes");
  }
  return absl::OkStatus();
}

inline absl::Status ReadEverything(const SwapStore& store, uint64_t generation) {
  for (int unit = 0; unit < store.layout().num_units(); ++unit) {
    for (int tile = 0; tile < store.layout().NumTiles(unit); ++tile) {
      for (int plane = 0; plane < store.layout().num_planes(); ++plane) {
        RETURN_IF_ERROR(ReadPlane(store, unit, tile, plane, generation));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace spillway
