// Reads tiles that lie in the model's files (swap/store/in_place.h), at any offset there, by
// transfers of whole blocks.
//
// The blocks that have a tile's bytes in them are more than the tile, and nothing but the tile has
// room where it goes; so they are read into memory of their own, and a worker puts the bytes into
// their place before it checks them. A piece of a tile takes up to two blocks more than its bytes:
// a read has room for a tile and a few of those. What has more pieces is read in several rounds,
// so that no model, whatever its tensors are like, takes more memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "io/io_engine.h"
#include "swap/device/arena.h"
#include "swap/store/swap_store.h"

namespace spillway {

// A tile on its way. The engine's owner but for Place.
class InPlaceRead {
 public:
  // On a worker: puts what has come into its place.
  void Place();
  // All of the tile is in its place; otherwise InPlaceReads::Continue brings more.
  bool complete() const { return next_piece_ == pieces_.size(); }

 private:
  friend class InPlaceReads;
  // Blocks of one file, and what of them is the tile's.
  struct Part {
    IoRequest request;
    uint64_t skipped_bytes = 0;
    uint64_t tile_offset = 0;
    uint64_t size_bytes = 0;
  };

  char* memory_ = nullptr;
  uint64_t tile_bytes_ = 0;
  char* to_ = nullptr;
  int unit_ = 0;
  int tile_ = 0;
  IoClass io_class_ = IoClass::kPrefetch;
  std::vector<InPlaceTiles::Piece> pieces_;
  size_t next_piece_ = 0;   // the first that is not all read
  uint64_t next_byte_ = 0;  // of it
  bool zeroed_ = false;     // what lies between the pieces
  std::vector<Part> parts_;
  size_t parts_left_ = 0;
  absl::Status status_;
  const SwapStore* store_ = nullptr;
  void (*arrived_)(void* context, const absl::Status& status) = nullptr;
  void* context_ = nullptr;
};

// The engine's owner.
class InPlaceReads {
 public:
  // What they may have of a host budget: enough for a fast drive, and little beside the rest.
  static uint64_t MostBytes(uint64_t host_memory_bytes);
  // How much memory reads take when they may have `memory_bytes`: one has what it needs at least.
  static uint64_t MemoryBytes(const StateLayout& layout, uint64_t memory_bytes);

  // `layout`: of the stores whose tiles are read. `memory`: of MemoryBytes; null where none has
  // tiles in place. `engine` outlives it.
  InPlaceReads(const StateLayout& layout, IoEngine* engine, std::unique_ptr<Arena> memory);

  bool HasRoom() const { return !free_.empty(); }
  // Begins to read a tile's weights to `to`. When the first part of it has come, and after every
  // Continue when the next has, `arrived` is called, here. REQUIRES: HasRoom, and the tile's files
  // are there; until End.
  InPlaceRead* Begin(const SwapStore& store, int unit, int tile, char* to, IoClass io_class,
                     void (*arrived)(void* context, const absl::Status& status), void* context);
  // REQUIRES: what has come is in its place, and that is not all.
  void Continue(InPlaceRead* read);
  void End(InPlaceRead* read);

 private:
  static uint64_t BytesEach(const StateLayout& layout);
  static void PartArrived(IoRequest& request, const absl::Status& status);

  IoEngine* const engine_;
  const uint64_t bytes_each_;
  const std::unique_ptr<Arena> memory_;
  std::vector<InPlaceRead> reads_;
  std::vector<InPlaceRead*> free_;
};

}  // namespace spillway
