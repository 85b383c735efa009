#include "swap/mover/prefetch.h"

#include "io/checksum.h"

namespace spillway {

Prefetch::Prefetch(const MoverContext& context, Buffers* buffers)
    : context_(context), buffers_(buffers) {
  for (int i = 0; i < context.plan.stage_spans.size(); ++i) free_stages_.push_back(i);
}

void Prefetch::Start(int64_t next_op) {
  for (const auto& buffer : buffers_->near()) {
    if (buffer->state == BufferState::kAllocated && buffers_->CanFetch(*buffer)) {
      Fill(*buffer, next_op);
    }
  }
  FillStages(next_op);
}

void Prefetch::Fill(Buffer& buffer, int64_t next_op) {
  const bool weights = buffer.use == BufferUse::kWeights;
  buffer.state = BufferState::kFetching;
  context_.record->Event(weights ? "fetch" : "load", buffer.unit);
  if (buffers_->OnDevice(buffer)) return FillOnDevice(buffer);
  const int pieces = weights ? layout_.NumTiles(buffer.unit) : store_->NumPieces(buffer.unit);
  buffer.transfers_left = pieces;
  buffer.transfers.resize(pieces);
  if (pieces == 0) buffer.state = BufferState::kReady;
  char* data = context_.Address(buffer.span);
  for (int piece = 0; piece < pieces; ++piece) {
    IoRequest& request = Prepare(buffer, piece, IoOp::kRead, data, next_op);
    data += request.size_bytes;
    request.done = &ReadDone;
    context_.engine->Submit(&request);
  }
}

void Prefetch::FillOnDevice(Buffer& buffer) {
  const int tiles = layout_.NumTiles(buffer.unit);
  if (plan_.placements[buffer.unit].weight == Tier::kNvme && tiles > 0) {
    buffer.transfers.resize(tiles);
    buffer.transfers_left = tiles;
    return;  // FillStages goes on
  }
  buffers_->WaitForAddresses(buffer, StreamId::kToDevice);
  if (tiles > 0) {
    context_.lane->CopyToDevice(buffer.unit, context_.Address(buffer.span),
                                context_.Address(plan_.plane_homes[buffer.unit][0]),
                                buffer.span.bytes);
  }
  buffer.filled = context_.lane->Record(StreamId::kToDevice);
  buffer.state = BufferState::kReady;
}

// From the store a tile at a time, through as many stages as there are; the buffer that is
// needed first has them first.
void Prefetch::FillStages(int64_t next_op) {
  for (const auto& buffer : buffers_->near()) {
    if (free_stages_.empty()) return;
    if (!buffers_->OnDevice(*buffer) || buffer->state != BufferState::kFetching) continue;
    while (buffer->next_transfer < buffer->transfers.size() && !free_stages_.empty()) {
      const int tile = static_cast<int>(buffer->next_transfer++);
      const int stage = free_stages_.back();
      free_stages_.pop_back();
      buffer->transfers[tile].stage = stage;
      IoRequest& request =
          Prepare(*buffer, tile, IoOp::kRead, context_.Address(plan_.stage_spans[stage]), next_op);
      request.done = &ReadDone;
      context_.engine->Submit(&request);
    }
  }
}

// One transfer between `data` and the store.
IoRequest& Prefetch::Prepare(Buffer& buffer, int piece, IoOp op, char* data, int64_t next_op) {
  const bool weights = buffer.use == BufferUse::kWeights;
  BufferTransfer& transfer = buffer.transfers[piece];
  transfer.prefetch = this;
  transfer.buffer = &buffer;
  transfer.piece = piece;
  const TileLocation location = weights ? store_->CurrentTile(buffer.unit, piece, 0, 1)
                                        : store_->ActivationPiece(buffer.unit, piece);
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
  return request;
}

// A worker checks what came, what is needed first before the rest, and all of it before the
// updates that wait for a worker: the compute thread is nearer to needing it, and here it would
// keep the disk waiting.
void Prefetch::ReadDone(IoRequest& request, const absl::Status& status) {
  BufferTransfer& transfer = *static_cast<BufferTransfer*>(request.context);
  Prefetch* const self = transfer.prefetch;
  if (self->context_.thread->failed() || !status.ok()) return self->Filled(transfer, status);
  ++self->checks_running_;
  self->context_.workers->RunFirst(transfer.buffer->first_op, [self, &transfer] {
    transfer.status = self->Verify(transfer);
    self->context_.thread->Post([self, &transfer] { self->Verified(transfer); });
  });
}

// On a worker.
absl::Status Prefetch::Verify(const BufferTransfer& transfer) const {
  const int unit = transfer.buffer->unit;
  const TraceSpan span(context_.trace, SpanKind::kCheck, unit, transfer.piece);
  return transfer.buffer->use == BufferUse::kWeights
             ? store_->Verify(unit, transfer.piece, 0, transfer.request.data)
             : store_->VerifyPiece(unit, transfer.piece, transfer.request.data);
}

void Prefetch::Verified(BufferTransfer& transfer) {
  --checks_running_;
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
  });
  if (buffer.transfers_left == 1) buffer.filled = context_.lane->Record(StreamId::kToDevice);
  Filled(transfer, absl::OkStatus());
}

void Prefetch::Filled(BufferTransfer& transfer, const absl::Status& status) {
  Buffer& buffer = *transfer.buffer;
  if (!status.ok()) context_.thread->Fail(status);
  if (--buffer.transfers_left > 0) return;
  buffer.state = BufferState::kReady;
  if (buffer.abandoned) buffers_->Release(buffer);
}

void Prefetch::Save(Buffer& buffer) {
  buffer.state = BufferState::kWriting;
  context_.record->Event("save", buffer.unit);
  const int pieces = store_->NumPieces(buffer.unit);
  buffer.transfers_left = pieces;
  buffer.transfers.resize(pieces);
  char* data = context_.Address(buffer.span);
  for (int piece = 0; piece < pieces; ++piece) {
    IoRequest& request = Prepare(buffer, piece, IoOp::kWrite, data, /*next_op=*/0);
    data += request.size_bytes;
    request.done = &SaveDone;
    BufferTransfer& transfer = buffer.transfers[piece];
    ++checks_running_;
    context_.workers->Run([this, &transfer] {
      {
        const Buffer& buffer = *transfer.buffer;
        const TraceSpan span(context_.trace, SpanKind::kCheck, buffer.unit, transfer.piece);
        transfer.checksum =
            Checksum(SwapStore::PieceIdentity(buffer.unit, transfer.piece, buffer.version + 1),
                     transfer.request.data, transfer.request.size_bytes);
      }
      context_.thread->Post([this, &transfer] {
        --checks_running_;
        if (!context_.thread->failed()) context_.engine->Submit(&transfer.request);
      });
    });
  }
}

void Prefetch::SaveDone(IoRequest& request, const absl::Status& status) {
  BufferTransfer& transfer = *static_cast<BufferTransfer*>(request.context);
  Prefetch* const self = transfer.prefetch;
  if (!status.ok()) return self->context_.thread->Fail(status);
  Buffer& buffer = *transfer.buffer;
  self->store_->RecordPieceWrite(buffer.unit, transfer.piece, transfer.checksum,
                                 buffer.version + 1);
  if (--buffer.transfers_left > 0) return;
  self->buffers_->SaveInput(buffer.unit, buffer.version);
  self->buffers_->Release(buffer);
}

}  // namespace spillway
