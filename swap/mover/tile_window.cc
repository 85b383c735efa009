#include "swap/mover/tile_window.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/checksum.h"

namespace spillway {
namespace {

// One is read while the other is checked, or written.
constexpr uint64_t kLeastTiles = 2;
// Where tiles are small: more than any queue is deep.
constexpr size_t kMostTiles = 256;
// Each sums more bytes a second than most drives read.
constexpr int kCheckers = 2;

std::string NameOf(const StoredTile& stored) {
  return absl::StrCat("unit ", stored.unit, " (", stored.store->layout().units()[stored.unit].name,
                      "), tile ", stored.tile);
}

}  // namespace

uint64_t WindowTile::PlaneOffset(int index) const {
  return stored_.store->layout().TilePlanesBytes(stored_.unit, stored_.tile, first_plane_, index);
}

absl::StatusOr<std::unique_ptr<TileWindow>> TileWindow::Create(std::vector<StoredTile> tiles,
                                                               int first_plane, int last_plane,
                                                               uint64_t memory_bytes,
                                                               const SwapStore* to) {
  SPILLWAY_CHECK(!tiles.empty());
  std::unique_ptr<TileWindow> window(new TileWindow(std::move(tiles), first_plane, last_plane));
  RETURN_IF_ERROR(window->Start(memory_bytes, to));
  return window;
}

uint64_t TileWindow::MemoryBytes(uint64_t memory_bytes, uint64_t largest_tile_bytes,
                                 uint64_t all_tiles_bytes) {
  return std::min(std::max(memory_bytes, kLeastTiles * largest_tile_bytes), all_tiles_bytes);
}

absl::Status TileWindow::Start(uint64_t memory_bytes, const SwapStore* to) {
  IoEngineOptions io;
  io.announce = false;
  uint64_t largest = 0, total = 0;
  bool any_in_place = false;
  const SwapStore* last_store = nullptr;
  for (const StoredTile& stored : tiles_) {
    largest = std::max(largest, TileBytes(stored));
    total += TileBytes(stored);
    any_in_place |= stored.store->IsInPlace(stored.unit);
    if (std::exchange(last_store, stored.store) == stored.store) continue;
    for (const File* file : stored.store->files()) {
      if (std::find(io.files.begin(), io.files.end(), file) == io.files.end()) {
        io.files.push_back(file);
      }
    }
  }
  if (to != nullptr) {
    for (const File* file : to->files()) io.files.push_back(file);
  }
  const StateLayout& layout = tiles_[0].store->layout();
  std::unique_ptr<Arena> for_in_place;
  if (any_in_place) {
    // Blocks and the tiles that they are put into have about as much.
    const uint64_t bytes = InPlaceReads::MemoryBytes(layout, memory_bytes / 2);
    ASSIGN_OR_RETURN(for_in_place, Arena::Create(bytes, /*budget=*/nullptr));
    io.memory.push_back({for_in_place->data(), for_in_place->size_bytes()});
    memory_bytes -= std::min(memory_bytes, bytes);
  }
  ASSIGN_OR_RETURN(memory_,
                   Arena::Create(MemoryBytes(memory_bytes, largest, total), /*budget=*/nullptr));
  io.memory.push_back({memory_->data(), memory_->size_bytes()});
  FileSystem& files = tiles_[0].store->file_system();
  ASSIGN_OR_RETURN(engine_, files.CreateEngine(io));
  in_place_ = std::make_unique<InPlaceReads>(layout, engine_.get(), std::move(for_in_place));
  if (files.may_start_threads()) checkers_ = std::make_unique<WorkerPool>(kCheckers);
  return absl::OkStatus();
}

TileWindow::~TileWindow() {
  stopping_ = true;
  while (engine_ != nullptr && (engine_->pending() > 0 || checks_ > 0)) {
    engine_->Poll(absl::Seconds(1));
    TakeChecked();
  }
}

// At least a block, so that every tile has a place of its own.
uint64_t TileWindow::TileBytes(const StoredTile& stored) const {
  const StateLayout& layout = stored.store->layout();
  const int last = std::min(last_plane_, layout.NumPlanes(stored.unit));
  if (first_plane_ >= last) return kStoreAlignment;
  return std::max<uint64_t>(layout.TilePlanesBytes(stored.unit, stored.tile, first_plane_, last),
                            kStoreAlignment);
}

// The memory is a ring: tiles come in order, each in one piece, and leave in order.
char* TileWindow::TakeRoom(uint64_t size_bytes) const {
  char* const begin = memory_->data();
  char* const end = begin + memory_->size_bytes();
  if (window_.empty()) return begin;
  char* const used_from = window_.front()->data_;
  char* const used_to = window_.back()->data_ + window_.back()->room_bytes_;
  if (used_from < used_to) {
    if (end >= used_to + size_bytes) return used_to;
    return used_from >= begin + size_bytes ? begin : nullptr;
  }
  return used_from >= used_to + size_bytes ? used_to : nullptr;
}

void TileWindow::ReadAhead() {
  while (!window_.empty() && window_.front()->state_ == WindowTile::State::kDone) {
    window_.pop_front();
    --handed_out_;
  }
  while (next_ < tiles_.size() && window_.size() < kMostTiles) {
    const StoredTile& stored = tiles_[next_];
    if (stored.store->IsInPlace(stored.unit) && !in_place_->HasRoom()) return;
    const uint64_t size_bytes = TileBytes(stored);
    char* const data = TakeRoom(size_bytes);
    if (data == nullptr) return;
    WindowTile& tile = *window_.emplace_back(std::make_unique<WindowTile>());
    tile.window_ = this;
    tile.stored_ = stored;
    tile.last_plane_ = std::min(last_plane_, stored.store->layout().NumPlanes(stored.unit));
    tile.first_plane_ = std::min(first_plane_, tile.last_plane_);
    tile.data_ = data;
    tile.room_bytes_ = size_bytes;
    ++next_;
    Read(tile);
  }
}

void TileWindow::Read(WindowTile& tile) {
  const auto& [store, unit, index] = tile.stored_;
  if (tile.first_plane_ == tile.last_plane_) {
    tile.state_ = WindowTile::State::kReady;
    return;
  }
  if (store->IsInPlace(unit)) return ReadInPlace(tile);
  // Planes that lie side by side on storage, as all of a commit do, come by one request.
  for (int plane = tile.first_plane_; plane < tile.last_plane_; ++plane) {
    const TileLocation at = store->CurrentTile(unit, index, plane, plane + 1);
    const uint64_t size_bytes = store->layout().PlaneBytes(unit, index, plane);
    if (!tile.requests_.empty()) {
      IoRequest& before = tile.requests_.back();
      if (before.offset_bytes + before.size_bytes == at.offset_bytes) {
        before.size_bytes += size_bytes;
        continue;
      }
    }
    IoRequest& request = tile.requests_.emplace_back();
    request.io_class = IoClass::kPrefetch;
    request.file = at.file;
    request.offset_bytes = at.offset_bytes;
    request.data = tile.plane(plane);
    request.size_bytes = size_bytes;
    request.unit = unit;
    request.tile = index;
    request.context = &tile;
    request.done = [](IoRequest& request, const absl::Status& status) {
      auto& tile = *static_cast<WindowTile*>(request.context);
      tile.window_->Arrived(tile, status);
    };
  }
  tile.requests_left_ = tile.requests_.size();
  for (IoRequest& request : tile.requests_) engine_->Submit(&request);
}

void TileWindow::ReadInPlace(WindowTile& tile) {
  const auto& [store, unit, index] = tile.stored_;
  tile.requests_left_ = 1;
  const auto pieces = store->in_place()->PiecesOf(unit, index);
  if (!pieces.ok()) return Arrived(tile, pieces.status());
  if (pieces->empty()) {  // all of it is padding
    std::memset(tile.data_, 0, tile.room_bytes_);
    return Arrived(tile, absl::OkStatus());
  }
  tile.in_place_ = in_place_->Begin(
      *store, unit, index, tile.data_, IoClass::kPrefetch,
      [](void* context, const absl::Status& status) {
        auto& tile = *static_cast<WindowTile*>(context);
        tile.requests_left_ = 1;
        tile.window_->Arrived(tile, status);
      },
      &tile);
}

void TileWindow::Arrived(WindowTile& tile, const absl::Status& status) {
  if (tile.status_.ok()) tile.status_ = status;
  SPILLWAY_CHECK(tile.requests_left_ > 0);
  if (--tile.requests_left_ > 0) return;
  if (tile.status_.ok() && !stopping_) return Check(tile);
  // Wrong bytes are named by who found them.
  if (!absl::IsDataLoss(tile.status_)) tile.status_ = Annotate(tile.status_, NameOf(tile.stored_));
  Checked(tile);
}

void TileWindow::Check(WindowTile& tile) {
  ++checks_;
  const auto verify = [&tile]() -> absl::Status {
    const auto& [store, unit, index] = tile.stored_;
    if (tile.in_place_ != nullptr) {
      tile.in_place_->Place();
      if (!tile.in_place_->complete()) return absl::OkStatus();
    }
    for (int plane = tile.first_plane_; plane < tile.last_plane_; ++plane) {
      const uint64_t generation = store->CurrentGeneration(unit, index, plane);
      tile.checksums_.push_back(Checksum(store->PlaneIdentity(unit, index, plane, generation),
                                         tile.plane(plane),
                                         store->layout().PlaneBytes(unit, index, plane)));
      RETURN_IF_ERROR(store->VerifyChecksum(unit, index, plane, tile.checksums_.back()));
    }
    return absl::OkStatus();
  };
  if (checkers_ == nullptr) {
    tile.status_ = verify();
    --checks_;
    return Checked(tile);
  }
  checkers_->Run([this, &tile, verify] {
    tile.status_ = verify();
    {
      MutexLock lock(mutex_);
      checked_.push_back(&tile);
    }
    engine_->Wake();
  });
}

void TileWindow::Checked(WindowTile& tile) {
  SPILLWAY_CHECK(tile.state_ == WindowTile::State::kOnItsWay);
  if (tile.in_place_ != nullptr) {
    if (tile.status_.ok() && !stopping_ && !tile.in_place_->complete()) {
      return in_place_->Continue(tile.in_place_);
    }
    in_place_->End(std::exchange(tile.in_place_, nullptr));
  }
  tile.state_ = WindowTile::State::kReady;
}

void TileWindow::TakeChecked() {
  std::vector<WindowTile*> checked;
  {
    MutexLock lock(mutex_);
    checked.swap(checked_);
  }
  for (WindowTile* tile : checked) {
    --checks_;
    Checked(*tile);
  }
}

void TileWindow::GoOn(absl::Duration timeout) {
  ReadAhead();
  engine_->Poll(timeout);
  TakeChecked();
}

absl::StatusOr<WindowTile*> TileWindow::Next() {
  // The caller has given back, or is writing, the tile before.
  SPILLWAY_CHECK(handed_out_ == 0 || window_[handed_out_ - 1]->state_ != WindowTile::State::kReady);
  GoOn(absl::ZeroDuration());
  while (true) {
    RETURN_IF_ERROR(write_status_);
    ReadAhead();
    if (handed_out_ < window_.size()) {
      WindowTile* const tile = window_[handed_out_].get();
      if (tile->state_ == WindowTile::State::kReady) {
        RETURN_IF_ERROR(tile->status_);
        ++handed_out_;
        return tile;
      }
    } else if (next_ == tiles_.size()) {
      return nullptr;
    }
    GoOn(absl::Seconds(1));
  }
}

void TileWindow::Write(WindowTile* tile, SwapStore& to) {
  const auto& [store, unit, index] = tile->stored_;
  SPILLWAY_CHECK(tile->state_ == WindowTile::State::kReady && tile->status_.ok());
  SPILLWAY_CHECK(tile->first_plane_ == 0 && tile->last_plane_ == to.layout().NumPlanes(unit));
  const TileLocation at = to.WritableTile(unit, index, 0);
  tile->written_to_ = &to;
  tile->state_ = WindowTile::State::kWriting;
  tile->requests_.resize(1);
  IoRequest& request = tile->requests_[0];
  request = IoRequest();
  request.op = IoOp::kWrite;
  // The class of the reads: neither waits for the other where they share a drive.
  request.io_class = IoClass::kPrefetch;
  request.file = at.file;
  request.offset_bytes = at.offset_bytes;
  request.data = tile->data_;  // the planes lie side by side in memory as on storage
  request.size_bytes = to.layout().TileBytes(unit, index);
  request.unit = unit;
  request.tile = index;
  request.context = tile;
  request.done = [](IoRequest& request, const absl::Status& status) {
    auto& tile = *static_cast<WindowTile*>(request.context);
    tile.window_->Written(tile, status);
  };
  ++writes_;
  engine_->Submit(&request);
}

void TileWindow::Written(WindowTile& tile, const absl::Status& status) {
  SPILLWAY_CHECK(writes_ > 0 && tile.state_ == WindowTile::State::kWriting);
  --writes_;
  tile.state_ = WindowTile::State::kDone;
  if (!status.ok()) {
    if (write_status_.ok()) write_status_ = Annotate(status, NameOf(tile.stored_));
    return;
  }
  // Where layouts are the same, so are identities: what was verified is what is recorded.
  const auto& [store, unit, index] = tile.stored_;
  for (int plane = 0; plane < tile.last_plane_; ++plane) {
    tile.written_to_->RecordWrite(unit, index, plane, {&tile.checksums_[plane], 1},
                                  store->CurrentGeneration(unit, index, plane));
  }
}

absl::Status TileWindow::Finish() {
  while (writes_ > 0) GoOn(absl::Seconds(1));
  return write_status_;
}

}  // namespace spillway
