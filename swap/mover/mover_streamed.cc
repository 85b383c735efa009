// Updates that a device with memory of its own does for state that lives elsewhere: a tile at a
// time is copied there, updated and copied back, and the new weights go to the next forward
// without leaving it.
//
//   a worker   checks what came from the store
//   to device  the planes, and a gradient that has waited elsewhere
//   to host    waits for those; rounds a gradient that is there, updates, puts the new weights
//              into the forward's stay, copies the planes back
//   a worker   makes the checksums of what goes to the store
//
// All that one tile uses on the device is its own from its first copy until its last is done, and
// the tiles' kernels are in one stream. So nothing else has to wait.
#include <utility>

#include "swap/mover/mover.h"
#include "swap/mover/mover_internal.h"

namespace spillway {

bool SwapManager::Mover::Streams(const Pass& pass) const {
  return pass.kind == PassKind::kUpdate && plan_.streams_update[pass.unit];
}

// The tile is in memory: a worker checks what came from the store.
void SwapManager::Mover::CheckBeforeStreaming(TileTask* task) {
  const int unit = task->pass->unit;
  if (plan_.UpdateBytesRead(unit) == 0 && !GradientInStore(unit)) return StreamTile(task);
  workers_.Run([this, task] {
    absl::Status status;
    {
      const TraceSpan span(trace_, SpanKind::kCheck, task->pass->unit, task->tile);
      status = VerifyTile(*task);
    }
    Post([this, task, status = std::move(status)] {
      if (failed_ || !status.ok()) return TileComputed(task, status);
      StreamTile(task);
    });
  });
}

// Goes on when there is memory for the tile on the device.
void SwapManager::Mover::StreamTile(TileTask* task) {
  tiles_to_stream_.push_back(task);
  StreamTiles();
}

void SwapManager::Mover::StreamTiles() {
  while (!tiles_to_stream_.empty() && (failed_ || !free_device_tiles_.empty())) {
    TileTask* const task = tiles_to_stream_.front();
    tiles_to_stream_.pop_front();
    if (failed_) {
      EndTask(task);
      continue;
    }
    task->device_tile = free_device_tiles_.back();
    free_device_tiles_.pop_back();
    PutIntoStreams(task);
  }
}

void SwapManager::Mover::PutIntoStreams(TileTask* task) {
  Pass& pass = *task->pass;
  const int unit = pass.unit, tile = task->tile;
  char* const there = Address(plan_.device_tile_spans[task->device_tile]);
  const uint64_t weight_bytes = layout_.PlaneBytes(unit, tile, 0);
  std::vector<char*> planes;
  for (int plane = 0; plane < layout_.num_planes(); ++plane) {
    planes.push_back(plan_.HomeOnDevice(unit, plane)
                         ? PlaneHome(unit, tile, plane)
                         : there + layout_.PlaneOffset(unit, tile, plane));
    if (!plan_.StreamsIn(unit, plane)) continue;
    CopyToDevice(unit, planes[plane], task->planes[plane], layout_.PlaneBytes(unit, tile, plane));
  }
  char* gradient = Address(plan_.rounded_span);
  if (task->sums == nullptr) {
    gradient = there + plan_.device_tile_gradient_offset;
    CopyToDevice(unit, gradient, task->gradient, layout_.GradientBytes(unit, tile));
  }

  device_->Wait(StreamId::kToHost, device_->Record(StreamId::kToDevice));
  if (task->sums) RoundOnDevice(task, gradient);
  // The op that completed the sums was the last to read them.
  if (task->weights) {
    device_->Copy(StreamId::kToHost, planes[0], std::exchange(task->weights, nullptr),
                  weight_bytes);
  }
  LaunchUpdate(task, planes, gradient);
  LearnedOfTile* const learned = TakeLearned(task);
  if (task->destination) {
    WaitForAddresses(*pass.destination, StreamId::kToHost);
    device_->Copy(StreamId::kToHost, task->destination, planes[0], weight_bytes);
  }
  for (int plane = 0; plane < layout_.num_planes(); ++plane) {
    if (!plan_.StreamsOut(unit, plane)) continue;
    CopyToHost(unit, task->planes[plane], planes[plane], layout_.PlaneBytes(unit, tile, plane));
  }
  if (++pass.tiles_streamed == NumTiles(pass)) PassStreamed(pass);
  NoteWhenDone(StreamId::kToHost, [this, task, learned](absl::Status status) {
    TileStreamed(task, *learned, status);
  });
}

// Every tile has been put into the streams: what comes next on the device waits there.
void SwapManager::Mover::PassStreamed(Pass& pass) {
  const DeviceEvent streamed = device_->Record(StreamId::kToHost);
  for (Stay** used : {&pass.weights, &pass.sums}) {
    Stay* const stay = std::exchange(*used, nullptr);
    if (stay == nullptr) continue;
    stay->last_use = streamed;
    ReleaseStay(*stay);
  }
  if (Stay* const destination = std::exchange(pass.destination, nullptr)) {
    destination->filled = streamed;
    destination->state = StayState::kReady;
    if (destination->abandoned) ReleaseStay(*destination);
  }
  pump_again_ = true;
}

// The new planes are in the host's memory.
void SwapManager::Mover::TileStreamed(TileTask* task, const LearnedOfTile& learned,
                                      absl::Status status) {
  free_device_tiles_.push_back(std::exchange(task->device_tile, -1));
  StreamTiles();
  if (status.ok() && !failed_ && learned.largest_magnitude != 0) {
    return CheckUpdated(task, learned.largest_magnitude);
  }
  ChecksumStreamed(task, status);
}

void SwapManager::Mover::ChecksumStreamed(TileTask* task, const absl::Status& status) {
  if (failed_ || !status.ok() || !plan_.placements[task->pass->unit].any_nvme()) {
    return TileComputed(task, status);
  }
  workers_.Run([this, task] {
    {
      const TraceSpan span(trace_, SpanKind::kCheck, task->pass->unit, task->tile);
      ChecksumTile(*task);
    }
    Post([this, task] { TileComputed(task, absl::OkStatus()); });
  });
}

}  // namespace spillway
