#include "swap/mover/in_place_reads.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "io/base/check.h"

namespace spillway {
namespace {

// Beside a tile's bytes: two blocks for each of eight pieces.
constexpr uint64_t kBesideBytes = 16 * kStoreAlignment;
// More reads at once than any drive needs to be busy.
constexpr uint64_t kMostReads = 32;

}  // namespace

uint64_t InPlaceReads::BytesEach(const StateLayout& layout) {
  return layout.MaxPlaneTileBytes(0) + kBesideBytes;
}

uint64_t InPlaceReads::MostBytes(uint64_t host_memory_bytes) {
  return std::min(uint64_t{32} << 20, host_memory_bytes / 32);
}

uint64_t InPlaceReads::MemoryBytes(const StateLayout& layout, uint64_t memory_bytes) {
  const uint64_t each = BytesEach(layout);
  return std::clamp<uint64_t>(memory_bytes / each, 1, kMostReads) * each;
}

InPlaceReads::InPlaceReads(const StateLayout& layout, IoEngine* engine,
                           std::unique_ptr<Arena> memory)
    : engine_(engine), bytes_each_(BytesEach(layout)), memory_(std::move(memory)) {
  if (memory_ == nullptr) return;
  SPILLWAY_CHECK(memory_->size_bytes() >= bytes_each_);
  reads_.resize(memory_->size_bytes() / bytes_each_);
  for (size_t i = 0; i < reads_.size(); ++i) {
    reads_[i].memory_ = memory_->data() + i * bytes_each_;
    free_.push_back(&reads_[i]);
  }
}

InPlaceRead* InPlaceReads::Begin(const SwapStore& store, int unit, int tile, char* to,
                                 IoClass io_class,
                                 void (*arrived)(void* context, const absl::Status& status),
                                 void* context) {
  SPILLWAY_CHECK(HasRoom() && store.IsInPlace(unit));
  InPlaceRead* const read = free_.back();
  free_.pop_back();
  auto pieces = store.in_place()->PiecesOf(unit, tile);
  SPILLWAY_CHECK(pieces.ok());
  read->pieces_ = *std::move(pieces);
  read->tile_bytes_ = store.layout().PlaneBytes(unit, tile, 0);
  read->to_ = to;
  read->unit_ = unit;
  read->tile_ = tile;
  read->io_class_ = io_class;
  read->next_piece_ = 0;
  read->next_byte_ = 0;
  read->zeroed_ = false;
  read->status_ = absl::OkStatus();
  read->store_ = &store;
  read->arrived_ = arrived;
  read->context_ = context;
  ReadPart(read);
  return read;
}

void InPlaceReads::Continue(InPlaceRead* read) {
  SPILLWAY_CHECK(read->parts_left_ == 0 && read->zeroed_ && !read->complete());
  ReadPart(read);
}

// As many pieces, or as much of one, as there is memory for.
void InPlaceReads::ReadPart(InPlaceRead* read) {
  read->parts_.clear();
  uint64_t used = 0;
  // The block that the first byte lies in, and one that a last byte may lie in.
  while (!read->complete() && bytes_each_ - used >= 2 * kStoreAlignment) {
    const InPlaceTiles::Piece& piece = read->pieces_[read->next_piece_];
    const uint64_t at = piece.file_offset + read->next_byte_;
    InPlaceRead::Part part;
    part.skipped_bytes = at % kStoreAlignment;
    part.tile_offset = piece.tile_offset + read->next_byte_;
    part.size_bytes =
        std::min(piece.size_bytes - read->next_byte_, bytes_each_ - used - part.skipped_bytes);
    IoRequest& request = part.request;
    request.op = IoOp::kRead;
    request.io_class = read->io_class_;
    request.file = piece.file;
    request.offset_bytes = at - part.skipped_bytes;
    request.data = read->memory_ + used;
    request.needed_bytes = part.skipped_bytes + part.size_bytes;
    request.size_bytes =
        (request.needed_bytes + kStoreAlignment - 1) / kStoreAlignment * kStoreAlignment;
    request.unit = read->unit_;
    request.tile = read->tile_;
    request.context = read;
    request.done = &PartArrived;
    used += request.size_bytes;
    read->next_byte_ += part.size_bytes;
    if (read->next_byte_ == piece.size_bytes) {
      ++read->next_piece_;
      read->next_byte_ = 0;
    }
    read->parts_.push_back(std::move(part));
  }
  // A tile that is nothing but padding: an empty request tells of it as any other does.
  if (read->parts_.empty()) {
    IoRequest& request = read->parts_.emplace_back().request;
    request.file = read->store_->files().front();
    request.data = read->memory_;
    request.context = read;
    request.done = &PartArrived;
  }
  read->parts_left_ = read->parts_.size();
  for (InPlaceRead::Part& part : read->parts_) engine_->Submit(&part.request);
}

void InPlaceReads::PartArrived(IoRequest& request, const absl::Status& status) {
  InPlaceRead& read = *static_cast<InPlaceRead*>(request.context);
  if (read.status_.ok() && absl::IsOutOfRange(status)) {
    read.status_ = read.store_->in_place()->CutShort(read.unit_, read.tile_, status);
  } else if (read.status_.ok()) {
    read.status_ = status;
  }
  SPILLWAY_CHECK(read.parts_left_ > 0);
  if (--read.parts_left_ == 0) read.arrived_(read.context_, read.status_);
}

void InPlaceReads::End(InPlaceRead* read) {
  SPILLWAY_CHECK(read->parts_left_ == 0);
  free_.push_back(read);
  SPILLWAY_CHECK(free_.size() <= reads_.size());
}

void InPlaceRead::Place() {
  SPILLWAY_CHECK(parts_left_ == 0);
  if (!std::exchange(zeroed_, true)) {
    uint64_t end = 0;
    for (const InPlaceTiles::Piece& piece : pieces_) {
      std::memset(to_ + end, 0, piece.tile_offset - end);
      end = piece.tile_offset + piece.size_bytes;
    }
    std::memset(to_ + end, 0, tile_bytes_ - end);
  }
  for (const Part& part : parts_) {
    SPILLWAY_CHECK(part.tile_offset + part.size_bytes <= tile_bytes_);
    std::memcpy(to_ + part.tile_offset, part.request.data + part.skipped_bytes, part.size_bytes);
  }
}

}  // namespace spillway
