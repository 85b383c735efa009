#include "swap/mover/tile_buffers.h"

#include <algorithm>
#include <utility>

#include "io/base/check.h"

namespace spillway {

TileBuffers::TileBuffers(const MoverContext& context, Buffers* buffers)
    : context_(context),
      buffers_(buffers),
      spans_(context.plan.tile_spans),
      open_(context.plan.turn_stays.size()) {
  for (int i = 0; i < context.plan.tile_buffers; ++i) free_.push_back(i);
  for (const TurnStay& stay : context.plan.turn_stays) {
    for (int i = 0; i < stay.tiles; ++i) {
      const uint64_t bytes = context.plan.tile_buffer_bytes;
      spans_.push_back({stay.span.tier, stay.span.offset + i * bytes, bytes});
    }
  }
}

bool TileBuffers::Has(bool at_turn, int tile) const {
  if (!free_.empty()) return true;
  return at_turn && (Ahead(tile) != nullptr || !free_at_turn_.empty());
}

int TileBuffers::Take(bool at_turn, int tile) {
  if (const AheadTile* ahead = at_turn ? Ahead(tile) : nullptr) return ahead->tile_buffer;
  std::vector<int>& free = at_turn && !free_at_turn_.empty() ? free_at_turn_ : free_;
  SPILLWAY_CHECK(!free.empty());
  const int tile_buffer = free.back();
  free.pop_back();
  return tile_buffer;
}

void TileBuffers::Return(int tile_buffer) {
  SPILLWAY_CHECK(tile_buffer >= 0 && tile_buffer < spans_.size());
  if (tile_buffer < plan_.tile_buffers) {
    free_.push_back(tile_buffer);
    SPILLWAY_CHECK(free_.size() <= plan_.tile_buffers);
    return;
  }
  free_at_turn_.push_back(tile_buffer);
  SPILLWAY_CHECK(free_at_turn_.size() <= spans_.size() - plan_.tile_buffers);
  if (begun_version_ == version_) GiveBack();
}

void TileBuffers::PointAtPlanes(int unit, int tile, int tile_buffer,
                                std::vector<char*>& planes) const {
  planes.assign(layout_.num_planes(), nullptr);
  for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
    if (!plan_.placements[unit].InStore(plane) && !plan_.HomeOnDevice(unit, plane)) {
      planes[plane] = context_.PlaneHome(unit, tile, plane);
    } else if (tile_buffer >= 0) {
      planes[plane] = Address(tile_buffer) + layout_.PlaneOffset(unit, tile, plane);
    }
  }
}

void TileBuffers::OpenTurn(Buffer& buffer) {
  for (const Buffer* other : open_) {
    if (other != nullptr && other->version != buffer.version) return;
  }
  SPILLWAY_CHECK(buffer.use == BufferUse::kTurnTiles && open_[buffer.turn_stay] == nullptr);
  buffer.Become(BufferState::kReady);
  version_ = buffer.version + 1;
  if (begun_version_ == version_) {  // too late to be of use
    buffers_->Release(buffer);
    return context_.thread->NoteProgress();
  }
  open_[buffer.turn_stay] = &buffer;
  const int first = FirstOf(buffer.turn_stay);
  for (int i = plan_.turn_stays[buffer.turn_stay].tiles; i > 0; --i) {
    free_at_turn_.push_back(first + i - 1);
  }
}

// The tile buffers of one of the plan's turn_stays: [first, first + tiles).
int TileBuffers::FirstOf(int turn_stay) const {
  int first = plan_.tile_buffers;
  for (int i = 0; i < turn_stay; ++i) first += plan_.turn_stays[i].tiles;
  return first;
}

void TileBuffers::ReadAhead(const QueuedProgram& running) {
  const int unit = plan_.turn_unit;
  if (unit < 0 || free_at_turn_.empty()) return;
  // Only while this step's program runs: then its update takes the buffers.
  if (running.kind != Program::kTrain || running.version + 1 != version_) return;
  if (buffers_->settled(unit) != running.version) return;
  const int first = plan_.FirstPlaneRead(unit), last = plan_.placements[unit].last_nvme_plane;
  if (first >= last) return;
  if (ahead_.empty()) {
    const std::vector<int>* const tiles = buffers_->FirstTiles(unit, version_);
    ahead_order_ = TileOrder(tiles ? *tiles : std::vector<int>(), layout_.NumTiles(unit));
    ahead_of_.assign(ahead_order_.size(), -1);
  }
  while (!free_at_turn_.empty() && ahead_.size() < ahead_order_.size()) {
    const int tile = ahead_order_[ahead_.size()];
    ahead_of_[tile] = static_cast<int>(ahead_.size());
    AheadTile& ahead = *ahead_.emplace_back(std::make_unique<AheadTile>());
    ahead.owner = this;
    ahead.tile_buffer = free_at_turn_.back();
    free_at_turn_.pop_back();
    const TileLocation location = context_.store->CurrentTile(unit, tile, first, last);
    IoRequest& request = ahead.request;
    request.op = IoOp::kRead;
    request.io_class = IoClass::kWriteBack;  // nobody waits for it yet
    request.file = location.file;
    request.offset_bytes = location.offset_bytes;
    request.data = Address(ahead.tile_buffer) + layout_.PlaneOffset(unit, tile, first);
    request.size_bytes = layout_.TilePlanesBytes(unit, tile, first, last);
    request.unit = unit;
    request.tile = tile;
    request.context = &ahead;
    request.done = [](IoRequest& request, const absl::Status& status) {
      auto& ahead = *static_cast<AheadTile*>(request.context);
      ahead.read = true;
      if (!status.ok()) ahead.owner->context_.thread->Fail(status);
      if (ahead.then != nullptr) ahead.then(ahead.context);
    };
    context_.engine->Submit(&request);
  }
}

TileBuffers::AheadTile* TileBuffers::Ahead(int tile) const {
  return ahead_.empty() || ahead_of_[tile] < 0 ? nullptr : ahead_[ahead_of_[tile]].get();
}

bool TileBuffers::AwaitReadAhead(int tile, void (*then)(void* context), void* context) {
  AheadTile* const ahead = Ahead(tile);
  if (ahead == nullptr) return false;
  SPILLWAY_CHECK(ahead->then == nullptr);  // one update takes the tile
  ahead->then = then;
  ahead->context = context;
  if (ahead->read) then(context);
  return true;
}

void TileBuffers::CloseTurn(int64_t version) {
  if (begun_version_ == version) return;
  SPILLWAY_CHECK(begun_version_ < version);
  begun_version_ = version_ = version;
  GiveBack();
}

// A buffer all of whose tile buffers have come back is released.
void TileBuffers::GiveBack() {
  bool all = true;
  for (size_t i = 0; i < open_.size(); ++i) {
    if (open_[i] == nullptr) continue;
    const int first = FirstOf(static_cast<int>(i));
    const int end = first + plan_.turn_stays[i].tiles;
    const auto of_this = [&](int buffer) { return first <= buffer && buffer < end; };
    if (std::count_if(free_at_turn_.begin(), free_at_turn_.end(), of_this) < end - first) {
      all = false;
      continue;
    }
    std::erase_if(free_at_turn_, of_this);
    buffers_->Release(*std::exchange(open_[i], nullptr));
    context_.thread->NoteProgress();
  }
  if (all) ahead_.clear();
}

}  // namespace spillway
