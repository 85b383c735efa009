// Reads tiles of stores at rest through a window of memory: as many tiles as fit into it are read
// ahead, a few threads check them, and the caller gets one after the other in the order that it
// asked for. A tile may be written to another store before its memory is used again.
//
// So every drive always has transfers to do, all drives work at once, and reading, checksums and
// writing overlap; and the memory is that of the window.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "io/base/check.h"
#include "io/base/mutex.h"
#include "io/io_engine.h"
#include "swap/device/arena.h"
#include "swap/mover/in_place_reads.h"
#include "swap/mover/worker_pool.h"
#include "swap/store/swap_store.h"

namespace spillway {

// A tile of a store that outlives its reading, and is not written to meanwhile.
struct StoredTile {
  const SwapStore* store = nullptr;
  int unit = 0;
  int tile = 0;
};

class TileWindow;

// A tile in the window.
class WindowTile {
 public:
  const StoredTile& stored() const { return stored_; }
  // Planes [first_plane, last_plane) of the layout are in memory; last_plane is at most the number
  // of planes that the unit has.
  int first_plane() const { return first_plane_; }
  int last_plane() const { return last_plane_; }
  // A plane's bytes. REQUIRES: it is one of those in memory.
  char* plane(int index) const {
    SPILLWAY_CHECK(index >= first_plane_ && index < last_plane_);
    return data_ + PlaneOffset(index);
  }

 private:
  friend class TileWindow;
  enum class State { kOnItsWay, kReady, kWriting, kDone };

  uint64_t PlaneOffset(int index) const;

  TileWindow* window_ = nullptr;
  StoredTile stored_;
  int first_plane_ = 0, last_plane_ = 0;
  State state_ = State::kOnItsWay;
  char* data_ = nullptr;
  uint64_t room_bytes_ = 0;  // of the window's memory
  std::vector<IoRequest> requests_;
  size_t requests_left_ = 0;
  InPlaceRead* in_place_ = nullptr;
  std::vector<uint64_t> checksums_;  // [plane - first_plane_]
  SwapStore* written_to_ = nullptr;
  absl::Status status_;
};

// The caller's thread. The destructor waits for what is in flight.
class TileWindow {
 public:
  // Begins to read planes [first_plane, last_plane) of `tiles`, which are of stores with the same
  // planes and tiles of one size; `to`, which may be null, is where they will be written. Both
  // outlive it. `memory_bytes`: what it may have, but for MemoryBytes. REQUIRES: there are tiles.
  static absl::StatusOr<std::unique_ptr<TileWindow>> Create(std::vector<StoredTile> tiles,
                                                            int first_plane, int last_plane,
                                                            uint64_t memory_bytes,
                                                            const SwapStore* to = nullptr);
  // The memory that a window takes when it may have `memory_bytes`: that of the two largest tiles
  // at least, and that of all tiles at most.
  static uint64_t MemoryBytes(uint64_t memory_bytes, uint64_t largest_tile_bytes,
                              uint64_t all_tiles_bytes);
  ~TileWindow();
  TileWindow(const TileWindow&) = delete;
  TileWindow& operator=(const TileWindow&) = delete;

  // Waits for the next tile, which is verified and the caller's until Release or Write. Null after
  // the last. The error of a tile is returned in place of that tile, and the error of a write as
  // soon as it is known; Next must not be called after an error. REQUIRES: the tile before was
  // given back.
  absl::StatusOr<WindowTile*> Next();
  void Release(WindowTile* tile) {
    SPILLWAY_CHECK(tile->state_ == WindowTile::State::kReady);
    tile->state_ = WindowTile::State::kDone;
  }
  // Writes the tile to its place in `to`, which has the same layout; records the write there and
  // gives the memory back when it has ended. REQUIRES: Next returned the tile, and all planes were
  // read.
  void Write(WindowTile* tile, SwapStore& to);
  // Waits for all writes.
  absl::Status Finish();

 private:
  TileWindow(std::vector<StoredTile> tiles, int first_plane, int last_plane)
      : tiles_(std::move(tiles)), first_plane_(first_plane), last_plane_(last_plane) {}
  absl::Status Start(uint64_t memory_bytes, const SwapStore* to);

  uint64_t TileBytes(const StoredTile& stored) const;
  // Memory for the next tile; null: too much of it is in use.
  char* TakeRoom(uint64_t size_bytes) const;
  void ReadAhead();
  void Read(WindowTile& tile);
  void ReadInPlace(WindowTile& tile);
  void Arrived(WindowTile& tile, const absl::Status& status);
  void Check(WindowTile& tile);
  void Checked(WindowTile& tile);
  void Written(WindowTile& tile, const absl::Status& status);
  // Starts all transfers that can be started, and waits until one ends.
  void GoOn(absl::Duration timeout);
  void TakeChecked();

  const std::vector<StoredTile> tiles_;
  const int first_plane_, last_plane_;
  size_t next_ = 0;  // of tiles_: the first that is not in the window yet
  std::unique_ptr<Arena> memory_;
  std::unique_ptr<IoEngine> engine_;
  std::unique_ptr<InPlaceReads> in_place_;
  // In order; the caller has had the first `handed_out_` of them.
  std::deque<std::unique_ptr<WindowTile>> window_;
  size_t handed_out_ = 0;
  size_t writes_ = 0;  // under way
  size_t checks_ = 0;
  absl::Status write_status_;  // the first that failed
  bool stopping_ = false;
  Mutex mutex_;
  std::vector<WindowTile*> checked_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<WorkerPool> checkers_;  // null: the caller's thread checks
};

}  // namespace spillway
