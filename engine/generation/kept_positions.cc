#include "engine/generation/kept_positions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/torch/tensor_views.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/create_io_engine.h"

namespace spillway {
namespace {

// A multiple of what direct transfers ask for, and a page.
constexpr uint64_t kBlockAlignment = 4096;

uint64_t WholePages(uint64_t bytes) {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

uint64_t LargestBlock(const KeptShape& shape) {
  uint64_t largest = 0;
  for (int unit = 0; unit < static_cast<int>(shape.per_position.size()); ++unit) {
    largest = std::max(largest, shape.BlockBytes(unit));
  }
  return largest;
}

// From one block to the next, in host memory and in files.
uint64_t StrideOf(const KeptShape& shape) { return WholePages(LargestBlock(shape)); }

uint64_t BlocksOf(const KeptShape& shape) {
  const auto keeps = [](int64_t width) { return width > 0; };
  return shape.rows * std::count_if(shape.per_position.begin(), shape.per_position.end(), keeps);
}

}  // namespace

uint64_t KeptShape::bytes() const {
  uint64_t bytes = 0;
  for (int unit = 0; unit < static_cast<int>(per_position.size()); ++unit) {
    bytes += rows * BlockBytes(unit);
  }
  return bytes;
}

KeptShape::Memory KeptShape::MemoryIn(Tier tier, bool separate_device) const {
  const uint64_t staged = separate_device ? LargestBlock(*this) : 0;
  switch (tier) {
    case Tier::kDevice:
      return {bytes(), 0};
    case Tier::kHost:
      return {staged, BlocksOf(*this) * StrideOf(*this)};
    case Tier::kNvme:  // two on their way, and a checksum of each
      return {staged, 2 * StrideOf(*this) + WholePages(BlocksOf(*this) * sizeof(uint64_t))};
  }
  return {};
}

absl::StatusOr<std::unique_ptr<KeptPositions>> KeptPositions::Create(
    const KeptShape& shape, Tier tier, const ComputePlace& place, MemoryBudget* host_budget,
    const std::vector<std::string>& directories, const IoEngineOptions& io) {
  auto kept = std::unique_ptr<KeptPositions>(new KeptPositions(shape, tier, place));
  const auto floats = torch::TensorOptions(place.where).dtype(ScalarTypeOf(shape.dtype));
  if (tier == Tier::kDevice) {
    for (int row = 0; row < shape.rows; ++row) {
      std::vector<torch::Tensor>& blocks = kept->blocks_.emplace_back();
      for (const int64_t width : shape.per_position) {
        blocks.push_back(width > 0 ? torch::empty({shape.positions, width}, floats)
                                   : torch::Tensor());
      }
    }
    return kept;
  }
  const bool separate = place.device != nullptr;
  if (separate) {
    kept->staged_ =
        torch::empty({static_cast<int64_t>(LargestBlock(shape) / DTypeBytes(shape.dtype))}, floats);
  }
  uint64_t number = 0;
  for (const int64_t width : shape.per_position) {
    kept->first_blocks_.push_back(number);
    if (width > 0) number += shape.rows;
  }
  const uint64_t host_bytes = shape.MemoryIn(tier, separate).host_bytes;
  ASSIGN_OR_RETURN(kept->arena_, Arena::Create(host_bytes, host_budget, place.device));
  if (tier == Tier::kNvme) RETURN_IF_ERROR(kept->OpenFiles(directories, io));
  return kept;
}

KeptPositions::~KeptPositions() = default;

absl::Status KeptPositions::OpenFiles(const std::vector<std::string>& directories,
                                      const IoEngineOptions& io) {
  SPILLWAY_CHECK(!directories.empty());
  // Blocks take turns among the files.
  const uint64_t stride = StrideOf(shape_), blocks = BlocksOf(shape_);
  const uint64_t each = (blocks + directories.size() - 1) / directories.size();
  for (const std::string& directory : directories) {
    FileOptions options;
    options.write = options.create = true;
    ASSIGN_OR_RETURN(auto file, File::Open(absl::StrCat(directory, "/", kKeptName), options));
    if (kBlockAlignment % file->alignment_bytes() != 0) {
      return absl::UnimplementedError(
          absl::StrCat(file->path(), ": transfers there have to be aligned to ",
                       file->alignment_bytes(), " bytes: give --swap on another drive"));
    }
    RETURN_IF_ERROR(file->Preallocate(each * stride));
    files_.push_back(std::move(file));
  }
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i].data = arena_->data() + i * stride;
  checksums_ = reinterpret_cast<uint64_t*>(arena_->data() + slots_.size() * stride);
  IoEngineOptions options = io;
  options.announce = false;
  options.memory.clear();
  options.files.clear();
  ASSIGN_OR_RETURN(engine_, CreateIoEngine(options));
  return absl::OkStatus();
}

uint64_t KeptPositions::BlockNumber(int row, int unit) const { return first_blocks_[unit] + row; }

uint64_t KeptPositions::OffsetOf(int row, int unit) const {
  const uint64_t number = BlockNumber(row, unit);
  return (tier_ == Tier::kHost ? number : number / files_.size()) * StrideOf(shape_);
}

File& KeptPositions::FileOf(int row, int unit) const {
  return *files_[BlockNumber(row, unit) % files_.size()];
}

torch::Tensor KeptPositions::ViewOf(int unit, char* data) const {
  const int64_t width = shape_.per_position[unit];
  return ViewAt(data, {shape_.positions, width}, {width, 1}, ScalarTypeOf(shape_.dtype),
                torch::kCPU);
}

void KeptPositions::Begin(Slot& slot, IoOp op, uint64_t first_byte, uint64_t end_byte) {
  slot.request = IoRequest();
  slot.request.op = op;
  slot.request.io_class = op == IoOp::kRead ? IoClass::kDemand : IoClass::kWriteBack;
  slot.request.file = &FileOf(slot.row, slot.unit);
  const uint64_t begin = first_byte / kBlockAlignment * kBlockAlignment;
  slot.request.offset_bytes = OffsetOf(slot.row, slot.unit) + begin;
  slot.request.data = slot.data + begin;
  slot.request.size_bytes = WholePages(end_byte) - begin;
  slot.request.unit = slot.unit;
  slot.request.context = &slot;
  slot.request.done = [](IoRequest& request, const absl::Status& status) {
    Slot& slot = *static_cast<Slot*>(request.context);
    slot.status = status;
    slot.in_flight = false;
  };
  slot.in_flight = true;
  engine_->Submit(&slot.request);
}

absl::Status KeptPositions::Finish(Slot& slot) {
  while (slot.in_flight) engine_->Poll(absl::Seconds(1));
  return slot.status;
}

// REQUIRES: nothing is in flight of this slot, and no write of that block.
void KeptPositions::BeginRead(Slot& slot, int row, int unit, int64_t seen) {
  slot.row = row;
  slot.unit = unit;
  slot.seen = seen;
  slot.status = absl::OkStatus();
  if (seen > 0) Begin(slot, IoOp::kRead, 0, seen * shape_.PositionBytes(unit));
}

absl::Status KeptPositions::Verify(const Slot& slot) {
  const uint64_t bytes = slot.seen * shape_.PositionBytes(slot.unit);
  const ChecksumIdentity identity = {static_cast<uint32_t>(slot.unit), 0,
                                     static_cast<uint64_t>(slot.row),
                                     static_cast<uint64_t>(slot.seen)};
  if (Checksum(identity, slot.data, bytes) == checksums_[BlockNumber(slot.row, slot.unit)]) {
    return absl::OkStatus();
  }
  return WrongBytesError(absl::StrCat(
      "the key-value cache of unit ", slot.unit, ", text ", slot.row, ", in ",
      FileOf(slot.row, slot.unit).path(), " at ", OffsetOf(slot.row, slot.unit), " (", bytes,
      " bytes) is not what was written there: the drive or its path has changed it"));
}

absl::StatusOr<torch::Tensor> KeptPositions::Load(int row, int unit, int64_t seen) {
  row_ = row;
  unit_ = unit;
  given_ = torch::Tensor();
  const int64_t width = shape_.per_position[unit];
  if (width == 0) return given_;
  if (tier_ == Tier::kDevice) return given_ = blocks_[row][unit];
  char* data = nullptr;
  if (tier_ == Tier::kHost) {
    data = arena_->data() + OffsetOf(row, unit);
  } else {
    const auto holds = [&](const Slot& slot) {
      return slot.row == row && slot.unit == unit && slot.seen == seen;
    };
    if (!holds(slots_[slot_])) slot_ = 1 - slot_;
    Slot& slot = slots_[slot_];
    if (!holds(slot)) {
      for (Slot& other : slots_) RETURN_IF_ERROR(Finish(other));
      BeginRead(slot, row, unit, seen);
    }
    RETURN_IF_ERROR(Finish(slot));
    if (seen > 0) RETURN_IF_ERROR(Verify(slot));
    data = slot.data;
  }
  given_ = ViewOf(unit, data);
  if (!staged_.defined()) return given_;
  const torch::Tensor staged =
      staged_.narrow(0, 0, shape_.positions * width).view({shape_.positions, width});
  if (seen > 0) staged.narrow(0, 0, seen).copy_(given_.narrow(0, 0, seen));
  return staged;
}

absl::Status KeptPositions::Store(int64_t first, int64_t count) {
  if (tier_ == Tier::kDevice || !given_.defined()) return absl::OkStatus();
  if (staged_.defined()) {
    const int64_t width = shape_.per_position[unit_];
    const torch::Tensor staged =
        staged_.narrow(0, 0, shape_.positions * width).view({shape_.positions, width});
    given_.narrow(0, first, count).copy_(staged.narrow(0, first, count));
  }
  if (tier_ == Tier::kHost) return absl::OkStatus();
  Slot& slot = slots_[slot_];
  const uint64_t each = shape_.PositionBytes(unit_);
  const ChecksumIdentity identity = {static_cast<uint32_t>(unit_), 0, static_cast<uint64_t>(row_),
                                     static_cast<uint64_t>(first + count)};
  checksums_[BlockNumber(row_, unit_)] = Checksum(identity, slot.data, (first + count) * each);
  slot.seen = -1;
  Begin(slot, IoOp::kWrite, first * each, (first + count) * each);
  return absl::OkStatus();
}

absl::Status KeptPositions::Copy(int from, int to, int64_t first, int64_t end) {
  for (int unit = 0; unit < static_cast<int>(shape_.per_position.size()); ++unit) {
    if (shape_.per_position[unit] == 0) continue;
    const auto part = [&](const torch::Tensor& rows) { return rows.narrow(0, first, end - first); };
    if (tier_ == Tier::kDevice) {
      part(blocks_[to][unit]).copy_(part(blocks_[from][unit]));
      continue;
    }
    if (tier_ == Tier::kHost) {
      const auto block = [&](int row) {
        return ViewOf(unit, arena_->data() + OffsetOf(row, unit));
      };
      part(block(to)).copy_(part(block(from)));
      continue;
    }
    // What is read as one block is written as the other; what changes no bit is written, too, as
    // the checksum is of all.
    RETURN_IF_ERROR(Load(from, unit, end).status());
    slots_[slot_].row = row_ = to;
    RETURN_IF_ERROR(Store(0, end));
  }
  return absl::OkStatus();
}

void KeptPositions::Prefetch(int row, int unit, int64_t seen) {
  if (tier_ != Tier::kNvme || shape_.per_position[unit] == 0) return;
  // The other slot is free once what it had has been written; a block that is on its way out can't
  // be read before.
  Slot& other = slots_[1 - slot_];
  if (row == row_ && unit == unit_) return;
  if (!Finish(other).ok()) return;  // said by the next Load
  BeginRead(other, row, unit, seen);
}

IoStats KeptPositions::io_stats() const { return engine_ ? engine_->stats() : IoStats(); }

}  // namespace spillway
