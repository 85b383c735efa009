#include "swap/mover/tile_work.h"

#include <algorithm>
#include <cstring>

#include "io/base/status.h"
#include "io/checksum.h"

namespace spillway {
namespace {

int MostTasks(const SwapPlan& plan, int workers) {
  const int tasks = std::max({plan.tile_buffers + plan.turn_tiles(), 2 * workers,
                              static_cast<int>(plan.device_tile_spans.size())});
  return plan.separate_device ? std::min(tasks, kMaxDeviceTiles) : tasks;
}

int MostUpdates(const SwapPlan& plan, int most_tasks) {
  const auto staged = [&](const GradientStay& stay) { return plan.streams_update[stay.unit]; };
  const auto& stays = plan.gradient_stays;
  const bool both = std::any_of(stays.begin(), stays.end(), staged) &&
                    !std::all_of(stays.begin(), stays.end(), staged);
  return both ? (most_tasks + 1) / 2 : most_tasks;
}

}  // namespace

TileWork::TileWork(const MoverContext& context, TileBuffers* tile_buffers,
                   DeviceTiles* device_tiles, TileListener* listener)
    : context_(context),
      tile_buffers_(tile_buffers),
      device_tiles_(device_tiles),
      listener_(listener),
      tasks_(MostTasks(context.plan, context.workers->threads())),
      most_updates_(MostUpdates(context.plan, static_cast<int>(tasks_.size()))) {
  for (TileTask& task : tasks_) {
    task.work = this;
    free_tasks_.push_back(&task);
  }
}

template <auto kWork, auto kThen>
void TileWork::OnWorker(TileTask& task, SpanKind kind) {
  context_.RunOnWorker(
      {.kind = kind,
       .unit = task.pass->unit,
       .tile = task.tile,
       .work = [this, &task] { (this->*kWork)(task); },
       .then = [this, &task] { context_.thread->Post([this, &task] { (this->*kThen)(task); }); }});
}

template <auto kThen>
void TileWork::WhenDone(StreamId stream, TileTask& task) {
  context_.lane->WhenDone(stream, [this, &task](const absl::Status& status) {
    if (task.status.ok()) task.status = status;
    (this->*kThen)(task);
  });
}

bool TileWork::HasRoom(const Pass& pass) const {
  return !free_tasks_.empty() && (!pass.updates() || updates_running_[pass.staged] < most_updates_);
}

void TileWork::Begin(Pass& pass) {
  TileTask& task = *free_tasks_.back();
  free_tasks_.pop_back();
  task.Reset(&pass, pass.NextTile());
  task.first = pass.NextIsFirst();
  ++pass.next_tile;
  if (pass.updates()) ++updates_running_[pass.staged];
  if (pass.needs_tile_buffer) task.tile_buffer = tile_buffers_->Take(pass.at_boundary, task.tile);
  if (pass.kind != PassKind::kRound) {
    tile_buffers_->PointAtPlanes(pass.unit, task.tile, task.tile_buffer, task.planes);
  }
  if (pass.sums != nullptr) {
    task.sums = context_.Address(pass.sums->span) +
                layout_.TileBegin(task.tile) * plan_.SumBytesPerParameter(pass.unit);
  }
  const uint64_t weight_offset = context_.WeightOffset(task.tile);
  if (pass.weights != nullptr) {
    task.weights = context_.Address(pass.weights->span) + weight_offset;
  }
  if (pass.destination != nullptr && (task.first || !pass.fills_first)) {
    task.destination = context_.Address(pass.destination->span) + weight_offset;
  }
  if (pass.kind == PassKind::kRound || pass.reads_gradient()) task.gradient = GradientPlace(task);
  if (pass.on_device) {
    device_tiles_->UpdateInPlace(task);
    return WhenDone<&TileWork::UpdatedInPlace>(StreamId::kToHost, task);
  }
  const auto arrived = [](void* task) {
    auto& arrived_task = *static_cast<TileTask*>(task);
    arrived_task.work->Arrived(arrived_task);
  };
  if (pass.at_boundary && tile_buffers_->AwaitReadAhead(task.tile, arrived, &task)) return;
  Read(task);
}

// Where the task's rounded gradient is, or shall be, in the host's memory.
char* TileWork::GradientPlace(const TileTask& task) const {
  const int unit = task.pass->unit;
  if (plan_.deferred[unit] && plan_.placements[unit].gradient != Tier::kNvme) {
    return context_.Address(plan_.gradient_homes[unit]) +
           layout_.TileBegin(task.tile) * layout_.gradient_bytes_per_parameter();
  }
  // Rounded in place.
  if (task.sums != nullptr && !plan_.separate_device) return task.sums;
  if (task.sums != nullptr && task.pass->staged) return nullptr;  // it stays on the device
  return tile_buffers_->Address(task.tile_buffer) + plan_.tile_gradient_offset;
}

// Whether the host's work begins with something from a discrete device, and ends with something
// for it.
bool TileWork::NeedsCopyIn(const TileTask& task) const {
  const Pass& pass = *task.pass;
  if (!plan_.separate_device || pass.staged) return false;
  if (task.sums != nullptr || task.weights != nullptr) return true;
  return (pass.reads_state() || pass.kind == PassKind::kSave) && plan_.HomeOnDevice(pass.unit, 0);
}

bool TileWork::NeedsCopyOut(const TileTask& task) const {
  const Pass& pass = *task.pass;
  if (!plan_.separate_device || pass.on_device || pass.staged) return false;
  return task.destination != nullptr || ((pass.updates() || pass.kind == PassKind::kInitialize) &&
                                         plan_.HomeOnDevice(pass.unit, 0));
}

void TileWork::Read(TileTask& task) {
  const Pass& pass = *task.pass;
  const int unit = pass.unit, tile = task.tile;
  const int first = plan_.FirstPlaneRead(unit), last = plan_.placements[unit].last_nvme_plane;
  const bool state = pass.reads_state() && first < last;
  const bool gradient = pass.reads_gradient() && context_.GradientInStore(unit);
  const bool copied = NeedsCopyIn(task);
  task.transfers_left = state + gradient + copied;
  if (task.transfers_left == 0) return Arrived(task);
  if (copied) {
    device_tiles_->CopyIn(task);
    WhenDone<&TileWork::CopiedIn>(StreamId::kToHost, task);
  }
  if (state) {
    Submit(task, task.state_request, IoOp::kRead, store_->CurrentTile(unit, tile, first, last),
           task.planes[first], layout_.TilePlanesBytes(unit, tile, first, last));
  }
  if (gradient) {
    Submit(task, task.gradient_request, IoOp::kRead, store_->GradientTile(unit, tile),
           task.gradient, layout_.GradientBytes(unit, tile));
  }
}

void TileWork::Submit(TileTask& task, IoRequest& request, IoOp op, const TileLocation& location,
                      char* data, uint64_t bytes) {
  request.op = op;
  request.io_class =
      op == IoOp::kRead && task.pass->fills_forward ? IoClass::kPrefetch : IoClass::kWriteBack;
  request.file = location.file;
  request.offset_bytes = location.offset_bytes;
  request.data = data;
  request.size_bytes = bytes;
  request.unit = task.pass->unit;
  request.tile = task.tile;
  request.context = &task;
  request.done = &TransferDone;
  context_.engine->Submit(&request);
}

void TileWork::TransferDone(IoRequest& request, const absl::Status& status) {
  TileTask& task = *static_cast<TileTask*>(request.context);
  if (task.status.ok()) task.status = status;
  if (request.op == IoOp::kRead) {
    task.work->ReadEnded(task);
  } else {
    task.work->WriteEnded(task);
  }
}

void TileWork::CopiedIn(TileTask& task) {
  if (task.statistics != nullptr) task.partial = task.statistics->partial;
  ReadEnded(task);
}

void TileWork::ReadEnded(TileTask& task) {
  if (--task.transfers_left == 0) Arrived(task);
}

void TileWork::Arrived(TileTask& task) {
  if (context_.thread->failed() || !task.status.ok()) return End(task);
  if (task.pass->staged) return Stage(task);
  OnWorker<&TileWork::Compute, &TileWork::Computed>(task, SpanKindOf(task.pass->kind));
}

// --- On a worker ----------------------------------------------------------------

void TileWork::Compute(TileTask& task) { task.status = ComputeTile(task); }

absl::Status TileWork::ComputeTile(TileTask& task) const {
  const Pass& pass = *task.pass;
  const int unit = pass.unit, tile = task.tile;
  const bool discrete = plan_.separate_device;
  if (task.sums != nullptr && !discrete) RoundSums(task);
  switch (pass.kind) {
    case PassKind::kRound:
      if (context_.GradientInStore(unit)) {
        task.gradient_checksum = Checksum(store_->GradientIdentity(unit, tile, pass.generation),
                                          task.gradient, layout_.GradientBytes(unit, tile));
      }
      return absl::OkStatus();
    case PassKind::kMeasure:
      RETURN_IF_ERROR(Verify(task));
      context_.compute->Measure(ViewOf(context_, task), pass.scalars, pass.measure);
      return absl::OkStatus();
    case PassKind::kSave:
      ChecksumStale(task);
      return absl::OkStatus();
    case PassKind::kInitialize:
      for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
        std::memset(task.planes[plane], 0, layout_.PlaneBytes(unit, tile, plane));
      }
      RETURN_IF_ERROR((*pass.fill)(ViewOf(context_, task)));
      break;
    case PassKind::kUpdate:
      if (task.weights != nullptr) {
        std::memcpy(task.planes[0], task.weights, layout_.PlaneBytes(unit, tile, 0));
      }
      RETURN_IF_ERROR(Verify(task));
      RETURN_IF_ERROR(context_.compute->Update(ViewOf(context_, task), pass.scalars));
      break;
  }
  ChecksumPlanes(task);
  if (task.destination != nullptr && !discrete) {
    std::memcpy(task.destination, task.planes[0], layout_.PlaneBytes(unit, tile, 0));
  }
  return absl::OkStatus();
}

// Rounds the gradient into its place and gathers its statistics; an update from the sums ignores
// those.
void TileWork::RoundSums(TileTask& task) const {
  const int unit = task.pass->unit, tile = task.tile;
  const uint64_t parameters = layout_.TileParameters(unit, tile);
  if (!plan_.rounded_sums[unit]) {
    const auto* sums = reinterpret_cast<const float*>(task.sums);
    task.partial = context_.compute->Round(unit, tile, parameters, sums, task.gradient);
  } else if (task.pass->kind == PassKind::kRound) {
    if (task.gradient != task.sums) {
      std::memcpy(task.gradient, task.sums, layout_.GradientBytes(unit, tile));
    }
    task.partial = context_.compute->Learn(unit, tile, parameters, task.gradient);
  }
}

// What came from the store for an update.
absl::Status TileWork::Verify(const TileTask& task) const {
  const int unit = task.pass->unit, tile = task.tile;
  const int last = plan_.placements[unit].last_nvme_plane;
  for (int p = plan_.FirstPlaneRead(unit); p < last && task.pass->reads_state(); ++p) {
    RETURN_IF_ERROR(store_->Verify(unit, tile, p, task.planes[p]));
  }
  if (context_.GradientInStore(unit)) {
    const uint64_t checksum =
        Checksum(store_->GradientIdentity(unit, tile, store_->GradientGeneration(unit, tile)),
                 task.gradient, layout_.GradientBytes(unit, tile));
    RETURN_IF_ERROR(store_->VerifyGradientChecksum(unit, tile, checksum));
  }
  return absl::OkStatus();
}

// Of what goes to the store.
void TileWork::ChecksumPlanes(TileTask& task) const {
  const int unit = task.pass->unit, tile = task.tile;
  const UnitPlacement& placement = plan_.placements[unit];
  for (int p = placement.first_nvme_plane; p < placement.last_nvme_plane; ++p) {
    task.checksums.push_back(Checksum(store_->PlaneIdentity(unit, tile, p, task.pass->generation),
                                      task.planes[p], layout_.PlaneBytes(unit, tile, p)));
  }
}

// Of what lives in memory, and has moved on from what the store has of it.
void TileWork::ChecksumStale(TileTask& task) const {
  const int unit = task.pass->unit, tile = task.tile;
  for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
    if (plan_.placements[unit].InStore(plane)) continue;
    if (!store_->IsStale(unit, tile, plane)) continue;
    task.saved_planes.push_back(plane);
    task.checksums.push_back(
        Checksum(store_->PlaneIdentity(unit, tile, plane, task.pass->generation),
                 task.planes[plane], layout_.PlaneBytes(unit, tile, plane)));
  }
}

// --- On the mover's thread again ------------------------------------------------

void TileWork::Computed(TileTask& task) {
  if (context_.thread->failed() || !task.status.ok()) return End(task);
  const Pass& pass = *task.pass;
  if (pass.updates() || pass.kind == PassKind::kInitialize) MarkStale(task);
  if (pass.updates()) {
    context_.record->Count([&](SwapStats& stats) {
      ++stats.tiles_updated;
      if (task.destination == nullptr) return;
      stats.update_filled_bytes += layout_.PlaneBytes(pass.unit, task.tile, 0);
    });
  }
  if (NeedsCopyOut(task)) device_tiles_->CopyOut(task);
  listener_->TileComputed(task);
  Write(task);
}

void TileWork::MarkStale(const TileTask& task) const {
  if (store_ == nullptr) return;
  const int unit = task.pass->unit, planes = layout_.NumPlanes(unit);
  const UnitPlacement& placement = plan_.placements[unit];
  const int first = placement.any_nvme() ? placement.first_nvme_plane : 0;
  const int last = placement.any_nvme() ? placement.last_nvme_plane : 0;
  if (first > 0) store_->MarkStale(unit, task.tile, 0, first);
  if (last < planes) store_->MarkStale(unit, task.tile, last, planes);
}

void TileWork::Write(TileTask& task) {
  const Pass& pass = *task.pass;
  const int unit = pass.unit, tile = task.tile;
  const UnitPlacement& placement = plan_.placements[unit];
  if (pass.kind == PassKind::kSave) return WriteStale(task);
  const bool copied = NeedsCopyOut(task);  // it is on its way
  const bool gradient = pass.kind == PassKind::kRound && placement.gradient == Tier::kNvme;
  const bool state = (pass.updates() || pass.kind == PassKind::kInitialize) && placement.any_nvme();
  task.transfers_left = copied + gradient + state;
  if (task.transfers_left == 0) return End(task);
  if (copied) {
    WhenDone<&TileWork::WriteEnded>(StreamId::kToDevice, task);
  }
  if (gradient) {
    Submit(task, task.gradient_request, IoOp::kWrite, store_->GradientTile(unit, tile),
           task.gradient, layout_.GradientBytes(unit, tile));
  }
  if (state) {
    const int first = placement.first_nvme_plane, last = placement.last_nvme_plane;
    Submit(task, task.state_request, IoOp::kWrite, store_->WritableTile(unit, tile, first),
           task.planes[first], layout_.TilePlanesBytes(unit, tile, first, last));
  }
}

void TileWork::WriteStale(TileTask& task) {
  const int unit = task.pass->unit;
  const size_t count = task.saved_planes.size();
  if (count == 0) return End(task);
  task.transfers_left = static_cast<int>(count);
  task.save_requests.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const int plane = task.saved_planes[i];
    Submit(task, task.save_requests[i], IoOp::kWrite, store_->WritableTile(unit, task.tile, plane),
           task.planes[plane], layout_.PlaneBytes(unit, task.tile, plane));
  }
}

void TileWork::WriteEnded(TileTask& task) {
  if (--task.transfers_left == 0) Written(task);
}

void TileWork::Written(TileTask& task) {
  const Pass& pass = *task.pass;
  const int unit = pass.unit, tile = task.tile;
  if (!task.status.ok()) return End(task);
  if (pass.kind == PassKind::kRound) {
    store_->RecordGradientWrite(unit, tile, task.gradient_checksum, pass.generation);
  } else if (pass.kind == PassKind::kSave) {
    for (size_t i = 0; i < task.saved_planes.size(); ++i) {
      store_->RecordWrite(unit, tile, task.saved_planes[i], {&task.checksums[i], 1},
                          pass.generation);
    }
  } else if (!task.checksums.empty()) {
    store_->RecordWrite(unit, tile, plan_.placements[unit].first_nvme_plane, task.checksums,
                        pass.generation);
  }
  End(task);
}

void TileWork::End(TileTask& task) {
  Pass& pass = *task.pass;
  if (task.tile_buffer >= 0) tile_buffers_->Return(task.tile_buffer);
  device_tiles_->GiveBackStatistics(task);
  if (pass.updates()) --updates_running_[pass.staged];
  if (!task.status.ok()) context_.thread->Fail(task.status);
  free_tasks_.push_back(&task);
  if (!context_.thread->failed()) listener_->TileEnded(pass);
}

// --- Staged updates, and those in a device's own memory -------------------------

// The tile is in the host's memory: a worker checks what came from the store.
void TileWork::Stage(TileTask& task) {
  const int unit = task.pass->unit;
  if (plan_.UpdateBytesRead(unit) == 0 && !context_.GradientInStore(unit)) {
    return QueueStaged(task);
  }
  OnWorker<&TileWork::VerifyStaged, &TileWork::QueueStaged>(task, SpanKind::kCheck);
}

void TileWork::VerifyStaged(TileTask& task) { task.status = Verify(task); }

// Goes on when there is memory for the tile on the device.
void TileWork::QueueStaged(TileTask& task) {
  if (context_.thread->failed() || !task.status.ok()) return End(task);
  to_stage_.push_back(&task);
  StartStaged();
}

void TileWork::StartStaged() {
  while (!to_stage_.empty()) {
    TileTask& task = *to_stage_.front();
    const bool failed = context_.thread->failed();
    if (!failed && !device_tiles_->TakeMemory(task)) return;
    to_stage_.pop_front();
    if (failed) {
      End(task);
      continue;
    }
    device_tiles_->UpdateStaged(task);
    if (++task.pass->tiles_staged == task.pass->num_tiles) listener_->PassStaged(*task.pass);
    WhenDone<&TileWork::Staged>(StreamId::kToHost, task);
  }
}

// The new planes are in the host's memory.
void TileWork::Staged(TileTask& task) {
  device_tiles_->GiveBackMemory(task);
  StartStaged();
  const bool good = task.status.ok() && !context_.thread->failed();
  if (good && task.statistics->largest_magnitude != 0) return FindUnstorable(task);
  ChecksumStaged(task);
}

void TileWork::ChecksumStaged(TileTask& task) {
  const bool good = task.status.ok() && !context_.thread->failed();
  if (!good || !plan_.placements[task.pass->unit].any_nvme()) return Computed(task);
  OnWorker<&TileWork::ChecksumPlanes, &TileWork::Computed>(task, SpanKind::kCheck);
}

void TileWork::UpdatedInPlace(TileTask& task) {
  const bool good = task.status.ok() && !context_.thread->failed();
  if (good && task.statistics->largest_magnitude != 0) return FindUnstorable(task);
  Computed(task);
}

// A master of the tile may not stand: what its planes have become says which.
void TileWork::FindUnstorable(TileTask& task) {
  device_tiles_->CopyPlanes(task.pass->unit, task.tile, /*to_device=*/false, task.planes);
  WhenDone<&TileWork::CheckUnstorable>(StreamId::kToHost, task);
}

void TileWork::CheckUnstorable(TileTask& task) {
  if (task.status.ok()) {
    task.status = context_.compute->CheckUpdated(ViewOf(context_, task), task.pass->scalars,
                                                 task.statistics->largest_magnitude);
  }
  if (task.pass->staged) return ChecksumStaged(task);
  Computed(task);
}

}  // namespace spillway
