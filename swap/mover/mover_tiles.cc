// One tile of a pass, from its start to its end: read, arithmetic on a worker, write.
#include <cstring>
#include <utility>

#include "io/base/check.h"
#include "io/base/status.h"
#include "swap/mover/mover.h"
#include "swap/mover/mover_internal.h"

namespace spillway {

char* SwapManager::Mover::PlaneHome(int unit, int tile, int plane) const {
  return Address(plan_.plane_homes[unit][plane]) +
         layout_.TileBegin(tile) * layout_.planes()[plane].bytes_per_parameter;
}

// Where each plane of the task's tile is in memory, in its home or the tile buffer.
void SwapManager::Mover::PointAtPlanes(int unit, int tile, int tile_buffer,
                                       std::vector<char*>& planes) const {
  const UnitPlacement& placement = plan_.placements[unit];
  planes.resize(layout_.num_planes());
  for (int plane = 0; plane < layout_.num_planes(); ++plane) {
    if (!placement.InStore(plane) && !plan_.HomeOnDevice(unit, plane)) {
      planes[plane] = PlaneHome(unit, tile, plane);
    } else if (tile_buffer >= 0) {
      planes[plane] = Address(tile_spans_[tile_buffer]) + layout_.PlaneOffset(unit, tile, plane);
    }
  }
}

void SwapManager::Mover::StartTile(Pass& pass) {
  auto* task = new TileTask;
  task->mover = this;
  task->pass = &pass;
  task->tile = pass.next_tile++;
  task->generation = pass.kind == PassKind::kRound  ? pass.version + 1
                     : pass.kind == PassKind::kSave ? commit_->record.step
                                                    : pass.scalars.step;
  ++tasks_running_;
  if (pass.kind == PassKind::kUpdate) ++updates_running_[Streams(pass)];
  if (NeedsTileBuffer(pass)) TakeTileBuffer(task);
  const uint64_t begin = layout_.TileBegin(task->tile);
  if (pass.kind != PassKind::kRound) {
    PointAtPlanes(pass.unit, task->tile, task->tile_buffer, task->planes);
  }
  if (pass.sums) {
    task->sums = Address(pass.sums->span) + begin * plan_.SumBytesPerParameter(pass.unit);
  }
  if (pass.weights) {
    task->weights = Address(pass.weights->span) + begin * layout_.planes()[0].bytes_per_parameter;
  }
  if (pass.destination) {
    task->destination =
        Address(pass.destination->span) + begin * layout_.planes()[0].bytes_per_parameter;
  }
  if (pass.kind == PassKind::kRound || pass.kind == PassKind::kUpdate) {
    task->gradient = GradientPlace(*task);
  }
  if (UpdatesOnDevice(pass)) return UpdateOnDevice(task);
  if (pass.kind == PassKind::kUpdate || Brings(*task)) {
    if (!RunTileReadAhead(task)) ReadTilePlanes(task);
  } else {
    RunTile(task);
  }
}

// Whether its work on the host begins with something from a separate device, and ends with
// something for it.
bool SwapManager::Mover::Brings(const TileTask& task) const {
  if (device_ == nullptr || Streams(*task.pass)) return false;
  if (task.sums || task.weights) return true;
  const PassKind kind = task.pass->kind;
  return (kind == PassKind::kUpdate || kind == PassKind::kSave) &&
         plan_.HomeOnDevice(task.pass->unit, 0);
}

bool SwapManager::Mover::Takes(const TileTask& task) const {
  if (device_ == nullptr || UpdatesOnDevice(*task.pass) || Streams(*task.pass)) return false;
  const PassKind kind = task.pass->kind;
  return task.destination || ((kind == PassKind::kUpdate || kind == PassKind::kInitialize) &&
                              plan_.HomeOnDevice(task.pass->unit, 0));
}

// Where the task's rounded gradient is, or shall be, in the host's memory.
char* SwapManager::Mover::GradientPlace(const TileTask& task) const {
  const int unit = task.pass->unit;
  if (plan_.deferred[unit] && plan_.placements[unit].gradient != Tier::kNvme) {
    return Address(plan_.gradient_homes[unit]) +
           layout_.TileBegin(task.tile) * layout_.gradient_bytes_per_parameter();
  }
  // Rounded in place.
  if (task.sums && device_ == nullptr) return task.sums;
  if (task.sums && Streams(*task.pass)) return nullptr;  // it stays on the device
  return Address(tile_spans_[task.tile_buffer]) + plan_.tile_gradient_offset;
}

void SwapManager::Mover::SubmitTransfer(TileTask* task, IoRequest& request, IoOp op,
                                        const TileLocation& location, char* data, uint64_t bytes) {
  request.op = op;
  request.io_class =
      op == IoOp::kRead && FillsForward(*task->pass) ? IoClass::kPrefetch : IoClass::kWriteBack;
  request.file = location.file;
  request.offset_bytes = location.offset_bytes;
  request.data = data;
  request.size_bytes = bytes;
  request.unit = task->pass->unit;
  request.tile = task->tile;
  request.context = task;
  request.done = [](IoRequest& request, const absl::Status& status) {
    auto* task = static_cast<TileTask*>(request.context);
    task->mover->TransferEnded(task, request.op, status);
  };
  engine_->Submit(&request);
}

void SwapManager::Mover::TransferEnded(TileTask* task, IoOp op, const absl::Status& status) {
  if (!status.ok() && task->status.ok()) task->status = status;
  if (--task->transfers_left > 0) return;
  if (op == IoOp::kRead) {
    TileRead(task);
  } else {
    TileWritten(task);
  }
}

void SwapManager::Mover::ReadTilePlanes(TileTask* task) {
  const int unit = task->pass->unit;
  const bool update = task->pass->kind == PassKind::kUpdate;
  const int first = plan_.FirstPlaneRead(unit), last = plan_.placements[unit].last_nvme_plane;
  const bool state = update && first < last;
  const bool gradient = update && GradientInStore(unit);
  const bool brought = Brings(*task);
  task->transfers_left = (state ? 1 : 0) + (gradient ? 1 : 0) + (brought ? 1 : 0);
  if (task->transfers_left == 0) return RunTile(task);
  if (brought) BringFromDevice(task);
  if (state) {
    SubmitTransfer(task, task->state_request, IoOp::kRead,
                   store_->CurrentTile(unit, task->tile, first, last), task->planes[first],
                   layout_.TileParameters(unit, task->tile) * layout_.PlaneRangeBytes(first, last));
  }
  if (gradient) {
    SubmitTransfer(task, task->gradient_request, IoOp::kRead,
                   store_->GradientTile(unit, task->tile), task->gradient,
                   layout_.GradientBytes(unit, task->tile));
  }
}

void SwapManager::Mover::TileRead(TileTask* task) {
  if (failed_ || !task->status.ok()) return EndTask(task);
  RunTile(task);
}

// Hands the tile to a worker, which touches only the tile's own memory and records.
void SwapManager::Mover::RunTile(TileTask* task) {
  if (Streams(*task->pass)) return CheckBeforeStreaming(task);
  workers_.Run([this, task] {
    absl::Status status;
    {
      const TraceSpan span(trace_, SpanKindOf(task->pass->kind), task->pass->unit, task->tile);
      status = ComputeTile(*task);
    }
    Post([this, task, status = std::move(status)] { TileComputed(task, status); });
  });
}

TileView SwapManager::Mover::ViewOf(const TileTask& task) const {
  TileView view;
  view.unit = task.pass->unit;
  view.tile = task.tile;
  view.first_parameter = layout_.TileBegin(task.tile);
  view.parameters = layout_.TileParameters(view.unit, task.tile);
  view.planes = task.planes.data();
  view.gradient = task.gradient;
  return view;
}

// On a worker thread: what came from the store for an update.
absl::Status SwapManager::Mover::VerifyTile(const TileTask& task) const {
  const int unit = task.pass->unit, tile = task.tile;
  for (int p = plan_.FirstPlaneRead(unit); p < plan_.placements[unit].last_nvme_plane; ++p) {
    RETURN_IF_ERROR(store_->Verify(unit, tile, p, task.planes[p]));
  }
  if (GradientInStore(unit)) {
    const uint64_t checksum =
        Checksum(GradientIdentity(unit, tile, store_->GradientGeneration(unit, tile)),
                 task.gradient, layout_.GradientBytes(unit, tile));
    RETURN_IF_ERROR(store_->VerifyGradientChecksum(unit, tile, checksum));
  }
  return absl::OkStatus();
}

// On a worker thread: the rounded gradient, where it shall be, and what is learned of it. Of that
// an update from the sums has no use.
void SwapManager::Mover::RoundTile(TileTask& task) const {
  const int unit = task.pass->unit, tile = task.tile;
  const uint64_t parameters = layout_.TileParameters(unit, tile);
  if (!plan_.rounded_sums[unit]) {
    const auto* sums = reinterpret_cast<const float*>(task.sums);
    task.partial = compute_->Round(unit, tile, parameters, sums, task.gradient);
  } else if (task.pass->kind == PassKind::kRound) {
    if (task.gradient != task.sums) {
      std::memcpy(task.gradient, task.sums, layout_.GradientBytes(unit, tile));
    }
    task.partial = compute_->Learn(unit, tile, parameters, task.gradient);
  }
}

// On a worker thread.
absl::Status SwapManager::Mover::ComputeTile(TileTask& task) const {
  const Pass& pass = *task.pass;
  if (pass.kind == PassKind::kSave) return ChecksumSaved(task);
  const int unit = pass.unit;
  const int tile = task.tile;

  if (task.sums && device_ == nullptr) RoundTile(task);
  if (pass.kind == PassKind::kRound) {
    if (GradientInStore(unit)) {
      task.gradient_checksum = Checksum(GradientIdentity(unit, tile, task.generation),
                                        task.gradient, layout_.GradientBytes(unit, tile));
    }
    return absl::OkStatus();
  }

  const TileView view = ViewOf(task);
  if (pass.kind == PassKind::kInitialize) {
    for (int plane = 0; plane < layout_.num_planes(); ++plane) {
      std::memset(task.planes[plane], 0, layout_.PlaneBytes(unit, tile, plane));
    }
    RETURN_IF_ERROR((*initialize_fill_)(view));
  } else {
    if (task.weights) {
      std::memcpy(task.planes[0], task.weights, layout_.PlaneBytes(unit, tile, 0));
    }
    RETURN_IF_ERROR(VerifyTile(task));
    RETURN_IF_ERROR(compute_->Update(view, pass.scalars));
  }
  ChecksumTile(task);
  if (task.destination && device_ == nullptr) {
    std::memcpy(task.destination, task.planes[0], layout_.PlaneBytes(unit, tile, 0));
  }
  return absl::OkStatus();
}

// On a worker thread: of what goes to the store.
void SwapManager::Mover::ChecksumTile(TileTask& task) const {
  const int unit = task.pass->unit, tile = task.tile;
  const UnitPlacement& placement = plan_.placements[unit];
  for (int p = placement.first_nvme_plane; p < placement.last_nvme_plane; ++p) {
    task.checksums.push_back(Checksum(store_->PlaneIdentity(unit, tile, p, task.generation),
                                      task.planes[p], layout_.PlaneBytes(unit, tile, p)));
  }
}

ChecksumIdentity SwapManager::Mover::GradientIdentity(int unit, int tile, uint64_t generation) {
  return {static_cast<uint32_t>(unit), static_cast<uint32_t>(Plane::kGradient),
          static_cast<uint64_t>(tile), generation};
}

void SwapManager::Mover::TileComputed(TileTask* task, const absl::Status& status) {
  if (!status.ok()) {
    task->status = status;
    return EndTask(task);
  }
  if (failed_) return EndTask(task);
  Pass& pass = *task->pass;
  const int unit = pass.unit;
  const UnitPlacement& placement = plan_.placements[unit];
  if (pass.kind == PassKind::kRound) {
    partials_[unit][task->tile] = task->partial;
  } else if (pass.kind != PassKind::kSave) {
    if (store_ != nullptr) {
      // What lives in memory has moved on from what the store has of it.
      const int planes = layout_.num_planes();
      if (placement.first_nvme_plane > 0 && placement.any_nvme()) {
        store_->MarkStale(unit, task->tile, 0, placement.first_nvme_plane);
      }
      const int rest = placement.any_nvme() ? placement.last_nvme_plane : 0;
      if (rest < planes) store_->MarkStale(unit, task->tile, rest, planes);
    }
    if (pass.kind == PassKind::kUpdate) {
      MutexLock lock(mutex_);
      ++stats_.tiles_updated;
      if (task->destination) {
        stats_.update_filled_bytes += layout_.PlaneBytes(unit, task->tile, 0);
      }
    }
  }
  if (Takes(*task)) TakeToDevice(task);
  const bool last = ++pass.tiles_computed == NumTiles(pass);
  // Rounded gradients are written from the sums themselves.
  if (last && pass.kind != PassKind::kRound) PassComputed(pass);
  WriteTilePlanes(task);
}

void SwapManager::Mover::WriteTilePlanes(TileTask* task) {
  Pass& pass = *task->pass;
  const int unit = pass.unit;
  const UnitPlacement& placement = plan_.placements[unit];
  if (pass.kind == PassKind::kSave) return WriteSaved(task);
  if (pass.kind == PassKind::kRound) {
    if (placement.gradient != Tier::kNvme) return EndTask(task);
    task->transfers_left = 1;
    SubmitTransfer(task, task->gradient_request, IoOp::kWrite,
                   store_->GradientTile(unit, task->tile), task->gradient,
                   layout_.GradientBytes(unit, task->tile));
    return;
  }
  const bool taken = Takes(*task), written = placement.any_nvme();
  task->transfers_left = (taken ? 1 : 0) + (written ? 1 : 0);
  if (task->transfers_left == 0) return EndTask(task);
  if (taken) {  // on its way
    NoteWhenDone(StreamId::kToDevice,
                 [this, task](absl::Status status) { TransferEnded(task, IoOp::kWrite, status); });
  }
  if (!written) return;
  SubmitTransfer(
      task, task->state_request, IoOp::kWrite,
      store_->WritableTile(unit, task->tile, placement.first_nvme_plane),
      task->planes[placement.first_nvme_plane],
      layout_.TileParameters(unit, task->tile) *
          layout_.PlaneRangeBytes(placement.first_nvme_plane, placement.last_nvme_plane));
}

void SwapManager::Mover::TileWritten(TileTask* task) {
  if (task->status.ok()) {
    const Pass& pass = *task->pass;
    if (pass.kind == PassKind::kRound) {
      store_->RecordGradientWrite(pass.unit, task->tile, task->gradient_checksum, task->generation);
    } else if (pass.kind == PassKind::kSave) {
      for (size_t i = 0; i < task->saved_planes.size(); ++i) {
        store_->RecordWrite(pass.unit, task->tile, task->saved_planes[i], {&task->checksums[i], 1},
                            task->generation);
      }
    } else if (!task->checksums.empty()) {
      store_->RecordWrite(pass.unit, task->tile, plan_.placements[pass.unit].first_nvme_plane,
                          task->checksums, task->generation);
    }
  }
  EndTask(task);
}

// The end of every task, good or bad.
void SwapManager::Mover::EndTask(TileTask* task) {
  if (task->tile_buffer >= 0) ReturnTileBuffer(task->tile_buffer);
  if (task->partial_slot >= 0) free_partials_.push_back(task->partial_slot);
  --tasks_running_;
  Pass& pass = *task->pass;
  if (pass.kind == PassKind::kUpdate) --updates_running_[Streams(pass)];
  if (!task->status.ok()) Fail(task->status);
  delete task;
  if (failed_) return;
  if (pass.kind == PassKind::kInitialize) {
    ++initialize_tiles_done_;
    if (initialize_progress_) {
      initialize_progress_(static_cast<double>(initialize_tiles_done_) / initialize_tiles_);
    }
  }
  if (++pass.tiles_done == NumTiles(pass)) PassDone(pass);
}

}  // namespace spillway
