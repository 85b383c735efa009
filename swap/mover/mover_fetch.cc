// Reading a stay's contents from the store: its unit's weights, tile by tile, or a spilled input,
// piece by piece. (Those of a separate device pass through swap/mover/mover_device.cc.)
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"
#include "swap/mover/mover.h"
#include "swap/mover/mover_internal.h"

namespace spillway {

void SwapManager::Mover::StartFetch(Stay& stay) {
  if (OnDevice(stay)) return StartFilling(stay);
  stay.state = StayState::kFetching;
  const bool weights = stay.use == StayUse::kWeights;
  const int tiles = weights ? layout_.NumTiles(stay.unit) : store_->NumPieces(stay.unit);
  stay.fetches_left = tiles;
  stay.fetches.resize(tiles);
  Event(absl::StrCat(weights ? "fetch " : "load ", stay.unit));
  if (tiles == 0) stay.state = StayState::kReady;
  char* data = Address(stay.span);
  for (int tile = 0; tile < tiles; ++tile) {
    IoRequest& request = PrepareTransfer(stay, tile, IoOp::kRead, data);
    data += request.size_bytes;
    request.done = &FetchReadDone;
    engine_->Submit(&request);
  }
}

// One transfer between `data` and the store: a tile of the stay's weights, or a piece of an input.
IoRequest& SwapManager::Mover::PrepareTransfer(Stay& stay, int tile, IoOp op, char* data) {
  const bool weights = stay.use == StayUse::kWeights;
  Fetch& fetch = stay.fetches[tile];
  fetch.mover = this;
  fetch.stay = &stay;
  fetch.tile = tile;
  const TileLocation location = weights ? store_->CurrentTile(stay.unit, tile, 0, 1)
                                        : store_->ActivationPiece(stay.unit, tile);
  IoRequest& request = fetch.request;
  request.op = op;
  request.io_class = op == IoOp::kWrite          ? IoClass::kWriteBack
                     : stay.first_op <= next_op_ ? IoClass::kDemand
                                                 : IoClass::kPrefetch;
  request.file = location.file;
  request.offset_bytes = location.offset_bytes;
  request.data = data;
  request.unit = stay.unit;
  request.tile = tile;
  request.size_bytes =
      weights ? layout_.PlaneBytes(stay.unit, tile, 0) : store_->PieceBytes(stay.unit, tile);
  request.context = &fetch;
  return request;
}

void SwapManager::Mover::FetchReadDone(IoRequest& request, const absl::Status& status) {
  Fetch& fetch = *static_cast<Fetch*>(request.context);
  fetch.mover->FetchRead(fetch, status);
}

// A worker checks what came, before the updates that wait for one: the compute thread is
// nearer to needing it, and here it would keep the disk waiting.
void SwapManager::Mover::FetchRead(Fetch& fetch, const absl::Status& status) {
  if (failed_ || !status.ok()) return FetchDone(fetch, status);
  ++checks_running_;
  workers_.RunFirst([this, &fetch] {
    const int unit = fetch.stay->unit;
    const TraceSpan span(trace_, SpanKind::kCheck, unit, fetch.tile);
    absl::Status status = fetch.stay->use == StayUse::kWeights
                              ? store_->Verify(unit, fetch.tile, 0, fetch.request.data)
                              : store_->VerifyPiece(unit, fetch.tile, fetch.request.data);
    Post([this, &fetch, status = std::move(status)] {
      --checks_running_;
      if (fetch.stage >= 0) return CopyStaged(fetch, status);
      FetchDone(fetch, status);
    });
  });
}

void SwapManager::Mover::FetchDone(Fetch& fetch, const absl::Status& status) {
  Stay& stay = *fetch.stay;
  if (!status.ok()) Fail(status);
  if (--stay.fetches_left > 0) return;
  stay.state = StayState::kReady;
  if (stay.abandoned) ReleaseStay(stay);
}

}  // namespace spillway
