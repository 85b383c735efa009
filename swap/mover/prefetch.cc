#include "swap/mover/prefetch.h"

#include <utility>

#include "io/base/check.h"
#include "io/checksum.h"

namespace spillway {

Prefetch::Prefetch(const MoverContext& context, Buffers* buffers, InPlaceReads* in_place)
    : context_(context), buffers_(buffers), in_place_(in_place) {
  for (int i = 0; i < context.plan.stage_spans.size(); ++i) free_stages_.push_back(i);
}

void Prefetch::Start(int64_t next_op) {
  for (const auto& buffer : buffers_->near()) {
    if (buffer->state() == BufferState::kAllocated && buffers_->CanFetch(*buffer)) {
      Fill(*buffer, next_op);
    }
  }
  FillTileByTile(next_op);
}

void Prefetch::Fill(Buffer& buffer, int64_t next_op) {
  const bool weights = buffer.use == BufferUse::kWeights;
  buffer.Become(BufferState::kFetching);
  context_.record->Event(weights ? "fetch" : "load", buffer.unit);
  if (buffers_->OnDevice(buffer)) return FillOnDevice(buffer);
  const int pieces = weights ? layout_.NumTiles(buffer.unit) : store_->NumPieces(buffer.unit);
  buffer.transfers_left = pieces;
  buffer.transfers.resize(pieces);
  if (pieces == 0) buffer.Become(BufferState::kReady);
  if (InPlace(buffer)) return;  // FillTileByTile goes on
  char* data = context_.Address(buffer.span);
  for (int piece = 0; piece < pieces; ++piece) {
    BufferTransfer& transfer = Prepare(buffer, piece, IoOp::kRead, data, next_op);
    data += transfer.request.size_bytes;
    Read(transfer);
  }
  SPILLWAY_CHECK(data == context_.Address(buffer.span) + buffer.span.bytes);
}

void Prefetch::FillOnDevice(Buffer& buffer) {
  const int tiles = layout_.NumTiles(buffer.unit);
  if (plan_.placements[buffer.unit].weight == Tier::kNvme && tiles > 0) {
    buffer.transfers.resize(tiles);
    buffer.transfers_left = tiles;
    return;  // FillTileByTile goes on
  }
  buffers_->WaitForAddresses(buffer, StreamId::kToDevice);
  if (tiles > 0) {
    context_.lane->CopyToDevice(buffer.unit, context_.Address(buffer.span),
                                context_.Address(plan_.plane_homes[buffer.unit][0]),
                                buffer.span.bytes);
  }
  buffer.filled = context_.lane->Record(StreamId::kToDevice);
  buffer.Become(BufferState::kReady);
}

// A tile at a time: from the store to a device through as many stages as there are, and from the
// model's files as there is memory for; the buffer that is needed first has them first.
void Prefetch::FillTileByTile(int64_t next_op) {
  for (const auto& buffer : buffers_->near()) {
    const bool staged = buffers_->OnDevice(*buffer);
    if (buffer->state() != BufferState::kFetching ||
        buffer->next_transfer == buffer->transfers.size())
      continue;
    const bool in_place = InPlace(*buffer);
    if (!staged && !in_place) continue;
    while (buffer->next_transfer < buffer->transfers.size() && !(staged && free_stages_.empty()) &&
           !(in_place && !in_place_->HasRoom())) {
      const int tile = static_cast<int>(buffer->next_transfer++);
      char* to = nullptr;
      if (staged) {
        const int stage = free_stages_.back();
        free_stages_.pop_back();
        buffer->transfers[tile].stage = stage;
        to = context_.Address(plan_.stage_spans[stage]);
      } else {
        to = context_.Address(buffer->span) + context_.WeightOffset(tile);
      }
      Read(Prepare(*buffer, tile, IoOp::kRead, to, next_op));
    }
  }
}

// One transfer between `data` and the store.
BufferTransfer& Prefetch::Prepare(Buffer& buffer, int piece, IoOp op, char* data, int64_t next_op) {
  SPILLWAY_CHECK(store_ != nullptr && piece < buffer.transfers.size());
  const bool weights = buffer.use == BufferUse::kWeights;
  BufferTransfer& transfer = buffer.transfers[piece];
  transfer.prefetch = this;
  transfer.buffer = &buffer;
  transfer.piece = piece;
  TileLocation location;  // nowhere: in the model's files
  if (!weights) {
    location = store_->ActivationPiece(buffer.unit, piece);
  } else if (!InPlace(buffer)) {
    location = store_->CurrentTile(buffer.unit, piece, 0, 1);
  }
  IoRequest& request = transfer.request;
  request.op = op;
  request.io_class = op == IoOp::kWrite           ? IoClass::kWriteBack
                     : buffer.first_op <= next_op ? IoClass::kDemand
                                                  : IoClass::kPrefetch;
  request.file = location.file;
  request.offset_bytes = location.offset_bytes;
  request.data = data;
  request.unit = buffer.unit;
  request.tile = piece;
  request.size_bytes =
      weights ? layout_.PlaneBytes(buffer.unit, piece, 0) : store_->PieceBytes(buffer.unit, piece);
  request.context = &transfer;
  return transfer;
}

void Prefetch::Read(BufferTransfer& transfer) {
  IoRequest& request = transfer.request;
  if (InPlace(*transfer.buffer)) {
    transfer.in_place = in_place_->Begin(
        *store_, request.unit, request.tile, request.data, request.io_class,
        [](void* context, const absl::Status& status) {
          auto& transfer = *static_cast<BufferTransfer*>(context);
          transfer.prefetch->Arrived(transfer, status);
        },
        &transfer);
    return;
  }
  request.done = [](IoRequest& request, const absl::Status& status) {
    auto& transfer = *static_cast<BufferTransfer*>(request.context);
    transfer.prefetch->Arrived(transfer, status);
  };
  context_.engine->Submit(&request);
}

// A worker checks what came, what is needed first before the rest, and all of it before the
// updates that wait for a worker: the compute thread is nearer to needing it, and here it would
// keep the disk waiting.
void Prefetch::Arrived(BufferTransfer& transfer, const absl::Status& status) {
  SPILLWAY_CHECK(transfer.buffer->state() == BufferState::kFetching);
  if (context_.thread->failed() || !status.ok()) {
    if (transfer.in_place != nullptr) in_place_->End(std::exchange(transfer.in_place, nullptr));
    return Filled(transfer, status);
  }
  ++checks_running_;
  context_.RunOnWorker(
      {.unit = transfer.buffer->unit,
       .tile = transfer.piece,
       .needed_by_op = transfer.buffer->first_op,
       .checked_bytes = transfer.request.size_bytes,
       .work = [&transfer] { transfer.status = transfer.prefetch->PlaceAndVerify(transfer); },
       .then =
           [&transfer] {
             Prefetch* const self = transfer.prefetch;
             self->context_.thread->Post([self, &transfer] { self->Verified(transfer); });
           }});
}

// On a worker.
absl::Status Prefetch::PlaceAndVerify(const BufferTransfer& transfer) const {
  const int unit = transfer.buffer->unit;
  if (transfer.in_place != nullptr) {
    transfer.in_place->Place();
    if (!transfer.in_place->complete()) return absl::OkStatus();
  }
  return transfer.buffer->use == BufferUse::kWeights
             ? store_->Verify(unit, transfer.piece, 0, transfer.request.data)
             : store_->VerifyPiece(unit, transfer.piece, transfer.request.data);
}

void Prefetch::Verified(BufferTransfer& transfer) {
  SPILLWAY_CHECK(checks_running_ > 0);
  --checks_running_;
  if (transfer.in_place != nullptr) {
    if (!context_.thread->failed() && !transfer.in_place->complete()) {
      return in_place_->Continue(transfer.in_place);
    }
    in_place_->End(std::exchange(transfer.in_place, nullptr));
  }
  if (transfer.stage < 0 || context_.thread->failed() || !transfer.status.ok()) {
    return Filled(transfer, transfer.status);
  }
  CopyFromStage(transfer);
}

void Prefetch::CopyFromStage(BufferTransfer& transfer) {
  Buffer& buffer = *transfer.buffer;
  buffers_->WaitForAddresses(buffer, StreamId::kToDevice);
  context_.lane->CopyToDevice(buffer.unit,
                              context_.Address(buffer.span) + context_.WeightOffset(transfer.piece),
                              transfer.request.data, transfer.request.size_bytes);
  context_.lane->WhenDone(StreamId::kToDevice, [this, stage = transfer.stage](absl::Status) {
    free_stages_.push_back(stage);
    SPILLWAY_CHECK(free_stages_.size() <= plan_.stage_spans.size());
  });
  if (buffer.transfers_left == 1) buffer.filled = context_.lane->Record(StreamId::kToDevice);
  Filled(transfer, absl::OkStatus());
}

void Prefetch::Filled(BufferTransfer& transfer, const absl::Status& status) {
  Buffer& buffer = *transfer.buffer;
  if (!status.ok()) context_.thread->Fail(status);
  SPILLWAY_CHECK(buffer.transfers_left > 0);
  if (--buffer.transfers_left > 0) return;
  buffer.Become(BufferState::kReady);
  if (buffer.abandoned) buffers_->Release(buffer);
}

void Prefetch::Save(Buffer& buffer) {
  buffer.Become(BufferState::kWriting);
  context_.record->Event("save", buffer.unit);
  const int pieces = store_->NumPieces(buffer.unit);
  SPILLWAY_CHECK(pieces > 0);  // the last one's write releases the buffer
  buffer.transfers_left = pieces;
  buffer.transfers.resize(pieces);
  char* data = context_.Address(buffer.span);
  for (int piece = 0; piece < pieces; ++piece) {
    BufferTransfer& transfer = Prepare(buffer, piece, IoOp::kWrite, data, /*next_op=*/0);
    data += transfer.request.size_bytes;
    transfer.request.done = &SaveDone;
    ++checks_running_;
    context_.RunOnWorker(
        {.unit = buffer.unit,
         .tile = piece,
         .checked_bytes = transfer.request.size_bytes,
         .work =
             [&transfer] {
               const Buffer& buffer = *transfer.buffer;
               transfer.checksum = Checksum(
                   SwapStore::PieceIdentity(buffer.unit, transfer.piece, buffer.version + 1),
                   transfer.request.data, transfer.request.size_bytes);
             },
         .then = [this,
                  &transfer] { context_.thread->Post([this, &transfer] { Summed(transfer); }); }});
  }
}

void Prefetch::Summed(BufferTransfer& transfer) {
  SPILLWAY_CHECK(checks_running_ > 0 && transfer.buffer->state() == BufferState::kWriting);
  --checks_running_;
  if (!context_.thread->failed()) context_.engine->Submit(&transfer.request);
}

void Prefetch::SaveDone(IoRequest& request, const absl::Status& status) {
  BufferTransfer& transfer = *static_cast<BufferTransfer*>(request.context);
  Prefetch* const self = transfer.prefetch;
  if (!status.ok()) return self->context_.thread->Fail(status);
  Buffer& buffer = *transfer.buffer;
  SPILLWAY_CHECK(buffer.state() == BufferState::kWriting && buffer.transfers_left > 0);
  self->store_->RecordPieceWrite(buffer.unit, transfer.piece, transfer.checksum,
                                 buffer.version + 1);
  if (--buffer.transfers_left > 0) return;
  self->buffers_->SaveInput(buffer.unit, buffer.version);
  self->buffers_->Release(buffer);
}

}  // namespace spillway
