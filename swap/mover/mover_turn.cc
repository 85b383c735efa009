// The turn of two steps. The update of the unit whose gradient is complete last (of a language
// model: the embedding) stands alone between this step's backward and the next one's forward, and
// nothing else is left to compute beside it. So its tiles are read while the last operations of
// the backward still compute, into memory that is idle there; and as those buffers also hold
// tiles that wait to be written, the reads go before the writes.
#include <algorithm>
#include <utility>

#include "swap/mover/mover.h"
#include "swap/mover/mover_internal.h"

namespace spillway {

bool SwapManager::Mover::IsAtTurn(const Pass& pass) const {
  return pass.kind == PassKind::kUpdate && pass.sums && pass.unit == plan_.turn_unit;
}

// Those of the turn before have closed.
bool SwapManager::Mover::CanOpenTurnStay(const Stay& stay) const {
  for (const Stay* other : turn_stays_) {
    if (other != nullptr && other->version != stay.version) return false;
  }
  return true;
}

// The tile buffers of one of the plan's turn stays: [first, first + tiles).
int SwapManager::Mover::FirstTurnBuffer(int turn_stay) const {
  int buffer = plan_.tile_buffers;
  for (int i = 0; i < turn_stay; ++i) buffer += plan_.turn_stays[i].tiles;
  return buffer;
}

// Its memory is its own: its tile buffers can be used.
void SwapManager::Mover::OpenTurnStay(Stay& stay) {
  turn_version_ = stay.version + 1;
  if (turn_begun_ == turn_version_) {  // too late to be of use
    ReleaseStay(stay);
    pump_again_ = true;
    return;
  }
  turn_stays_[stay.turn_stay] = &stay;
  const int first = FirstTurnBuffer(stay.turn_stay);
  for (int i = plan_.turn_stays[stay.turn_stay].tiles; i > 0; --i) {
    free_turn_buffers_.push_back(first + i - 1);
  }
}

// Before the gradient is complete: as many tiles as there are buffers, in order.
void SwapManager::Mover::ReadAheadAtTurn() {
  const int unit = plan_.turn_unit;
  if (unit < 0 || free_turn_buffers_.empty() || programs_.empty()) return;
  // Only while this step's program runs: then its update takes the buffers.
  const EnqueuedProgram& program = programs_.front();
  if (program.kind != Program::kTrain || program.version + 1 != turn_version_) return;
  if (settled_[unit] != program.version) return;
  const int first = plan_.FirstPlaneRead(unit), last = plan_.placements[unit].last_nvme_plane;
  if (first >= last) return;
  while (!free_turn_buffers_.empty() && tiles_ahead_.size() < layout_.NumTiles(unit)) {
    const int tile = static_cast<int>(tiles_ahead_.size());
    auto& ahead = *tiles_ahead_.emplace_back(std::make_unique<TileAhead>());
    ahead.mover = this;
    ahead.tile_buffer = free_turn_buffers_.back();
    free_turn_buffers_.pop_back();
    const TileLocation location = store_->CurrentTile(unit, tile, first, last);
    IoRequest& request = ahead.request;
    request.op = IoOp::kRead;
    request.io_class = IoClass::kWriteBack;  // nobody waits for it yet
    request.file = location.file;
    request.offset_bytes = location.offset_bytes;
    request.data = Address(tile_spans_[ahead.tile_buffer]) + layout_.PlaneOffset(unit, tile, first);
    request.size_bytes = layout_.TileParameters(unit, tile) * layout_.PlaneRangeBytes(first, last);
    request.unit = unit;
    request.tile = tile;
    request.context = &ahead;
    request.done = [](IoRequest& request, const absl::Status& status) {
      auto& ahead = *static_cast<TileAhead*>(request.context);
      ahead.read = true;
      if (!status.ok()) ahead.mover->Fail(status);
      if (ahead.task) ahead.mover->TileRead(ahead.task);
    };
    engine_->Submit(&request);
  }
}

// The task goes on with the tile that was, or is being, read for it.
bool SwapManager::Mover::RunTileReadAhead(TileTask* task) {
  if (!IsAtTurn(*task->pass) || task->tile >= tiles_ahead_.size()) return false;
  TileAhead& ahead = *tiles_ahead_[task->tile];
  ahead.task = task;
  if (ahead.read) TileRead(task);
  return true;
}

bool SwapManager::Mover::HasTileBuffer(const Pass& pass) const {
  if (!free_tile_buffers_.empty()) return true;
  return IsAtTurn(pass) && (pass.next_tile < tiles_ahead_.size() || !free_turn_buffers_.empty());
}

void SwapManager::Mover::TakeTileBuffer(TileTask* task) {
  std::vector<int>* free = &free_tile_buffers_;
  if (IsAtTurn(*task->pass)) {
    if (task->tile < tiles_ahead_.size()) {
      task->tile_buffer = tiles_ahead_[task->tile]->tile_buffer;
      return;
    }
    if (!free_turn_buffers_.empty()) free = &free_turn_buffers_;
  }
  task->tile_buffer = free->back();
  free->pop_back();
}

void SwapManager::Mover::ReturnTileBuffer(int tile_buffer) {
  if (tile_buffer < plan_.tile_buffers) return free_tile_buffers_.push_back(tile_buffer);
  free_turn_buffers_.push_back(tile_buffer);
  if (turn_begun_ == turn_version_) CloseTurn();
}

// Every tile has begun. A stay whose tile buffers have all come back gives up its memory.
void SwapManager::Mover::CloseTurn() {
  turn_begun_ = turn_version_;
  bool all = true;
  for (size_t i = 0; i < turn_stays_.size(); ++i) {
    if (turn_stays_[i] == nullptr) continue;
    const int first = FirstTurnBuffer(static_cast<int>(i));
    const int end = first + plan_.turn_stays[i].tiles;
    const auto of_this = [&](int buffer) { return first <= buffer && buffer < end; };
    if (std::count_if(free_turn_buffers_.begin(), free_turn_buffers_.end(), of_this) <
        end - first) {
      all = false;
      continue;
    }
    std::erase_if(free_turn_buffers_, of_this);
    ReleaseStay(*std::exchange(turn_stays_[i], nullptr));
    pump_again_ = true;
  }
  if (all) tiles_ahead_.clear();
}

}  // namespace spillway
