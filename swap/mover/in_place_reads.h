// Reads tiles that lie in the model's files (swap/store/in_place.h), at any offset there, by
// transfers of whole blocks.
//
// The blocks that contain a tile's bytes are larger than the tile, and the tile's destination has
// room for the tile alone. So the blocks are read into memory of their own, and a worker copies the
// bytes to the destination before it checks them. A piece of a tile takes up to two blocks more
// than its bytes; a read has room for a tile and a few such blocks. A tile of more pieces is read
// in several rounds, so that no model takes more memory, whatever its tensors are like.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "io/io_engine.h"
#include "swap/device/arena.h"
#include "swap/store/swap_store.h"

namespace spillway {

// A tile on its way. All but Place is called on the thread that owns the engine.
class InPlaceRead {
 public:
  // On a worker: copies the part that has come to its place in the tile. REQUIRES: it has come.
  void Place();
  // The whole tile has come; otherwise InPlaceReads::Continue reads the next part.
  bool complete() const { return next_piece_ == pieces_.size(); }

 private:
  friend class InPlaceReads;
  // Blocks of one file, and which of their bytes belong to the tile.
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

// The thread that owns the engine.
class InPlaceReads {
 public:
  // The memory that reads may take of a host budget: enough for a fast drive, and a small share.
  static uint64_t MostBytes(uint64_t host_memory_bytes);
  // The memory that reads take when they may have `memory_bytes`: enough for one read at least.
  static uint64_t MemoryBytes(const StateLayout& layout, uint64_t memory_bytes);

  // `layout` is that of the stores whose tiles are read. `memory` has MemoryBytes; it is null where
  // no store has tiles in place. `engine` outlives this.
  InPlaceReads(const StateLayout& layout, IoEngine* engine, std::unique_ptr<Arena> memory);

  bool HasRoom() const { return !free_.empty(); }
  // Begins to read a tile's weights to `to`. `arrived` is called on this thread when the first part
  // has come, and after every Continue when the next part has. The read is valid until End.
  // REQUIRES: HasRoom; the unit is read in place, and the tile's files are there.
  InPlaceRead* Begin(const SwapStore& store, int unit, int tile, char* to, IoClass io_class,
                     void (*arrived)(void* context, const absl::Status& status), void* context);
  // Reads the next part. REQUIRES: the part before has come and is in its place (Place), and the
  // tile is not complete.
  void Continue(InPlaceRead* read);
  // Gives the read's memory to the next one. REQUIRES: nothing of the read is under way.
  void End(InPlaceRead* read);

 private:
  void ReadPart(InPlaceRead* read);
  static uint64_t BytesEach(const StateLayout& layout);
  static void PartArrived(IoRequest& request, const absl::Status& status);

  IoEngine* const engine_;
  const uint64_t bytes_each_;
  const std::unique_ptr<Arena> memory_;
  std::vector<InPlaceRead> reads_;
  std::vector<InPlaceRead*> free_;
};

}  // namespace spillway
