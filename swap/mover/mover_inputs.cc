// Inputs of units that leave the device between forward and backward: put into the host's
// memory by the forward, which is all where they have a home there; otherwise written to the
// store in pieces, and read again ahead of the backward.
#include "io/checksum.h"
#include "swap/mover/mover.h"
#include "swap/mover/mover_internal.h"

namespace spillway {
namespace {

// The stay that an op of a training step uses where its unit's inputs go to the store.
StayUse UseOf(const StepOp& op) {
  return op.kind == OpKind::kForward ? StayUse::kSavedInput : StayUse::kLoadedInput;
}

}  // namespace

bool SwapManager::Mover::InputReady(const StepOp& op) {
  if (op.kind == OpKind::kLoss || plan_.activations[op.unit] != Tier::kNvme) return true;
  return FindStay(UseOf(op), op.unit, next_op_)->state == StayState::kReady;
}

void SwapManager::Mover::PointAtInputs(const StepOp& op, OpBuffers& buffers) {
  const Tier tier = plan_.activations[op.unit];
  if (op.kind == OpKind::kLoss || tier == Tier::kDevice) return;
  const ArenaSpan& span = tier == Tier::kHost ? plan_.activation_homes[op.unit]
                                              : FindStay(UseOf(op), op.unit, next_op_)->span;
  buffers.inputs = Address(span);
  buffers.inputs_bytes = span.bytes;
  if (device_ == nullptr) return;
  // Whoever computes copies them, in the compute stream.
  MutexLock lock(mutex_);
  (op.kind == OpKind::kForward ? stats_.to_host_bytes : stats_.to_device_bytes) += span.bytes;
}

void SwapManager::Mover::StartSavingInput(Stay& stay) {
  stay.state = StayState::kWriting;
  Event(absl::StrCat("save ", stay.unit));
  const int pieces = store_->NumPieces(stay.unit);
  stay.fetches_left = pieces;
  stay.fetches.resize(pieces);
  char* data = Address(stay.span);
  for (int i = 0; i < pieces; ++i) {
    IoRequest& request = PrepareTransfer(stay, i, IoOp::kWrite, data);
    data += request.size_bytes;
    request.done = [](IoRequest& request, const absl::Status& status) {
      Fetch& piece = *static_cast<Fetch*>(request.context);
      piece.mover->SaveDone(piece, status);
    };
    Fetch& piece = stay.fetches[i];
    ++checks_running_;
    workers_.Run([this, &piece] {
      {
        const Stay& stay = *piece.stay;
        const TraceSpan span(trace_, SpanKind::kCheck, stay.unit, piece.tile);
        piece.checksum = Checksum(SwapStore::PieceIdentity(stay.unit, piece.tile, stay.version + 1),
                                  piece.request.data, piece.request.size_bytes);
      }
      Post([this, &piece] {
        --checks_running_;
        if (!failed_) engine_->Submit(&piece.request);
      });
    });
  }
}

void SwapManager::Mover::SaveDone(Fetch& piece, const absl::Status& status) {
  if (!status.ok()) return Fail(status);
  Stay& stay = *piece.stay;
  store_->RecordPieceWrite(stay.unit, piece.tile, piece.checksum, stay.version + 1);
  if (--stay.fetches_left > 0) return;
  saved_[stay.unit] = stay.version;
  ReleaseStay(stay);
}

}  // namespace spillway
