#include "swap/mover/tile_work.h"

#include <algorithm>
#include <cstring>

#include "io/base/check.h"
#include "io/base/status.h"
#include "io/checksum.h"

namespace spillway {
namespace {

int MostJobs(const SwapPlan& plan, int workers) {
  const int jobs = std::max({plan.tile_buffers + plan.turn_tiles(), 2 * workers,
                             static_cast<int>(plan.device_tile_spans.size())});
  return plan.separate_device ? std::min(jobs, kMaxDeviceTiles) : jobs;
}

int MostUpdates(const SwapPlan& plan, int most_jobs) {
  const auto streamed = [&](const GradientStay& stay) { return plan.streams_update[stay.unit]; };
  const auto& stays = plan.gradient_stays;
  const bool both = std::any_of(stays.begin(), stays.end(), streamed) &&
                    !std::all_of(stays.begin(), stays.end(), streamed);
  return both ? (most_jobs + 1) / 2 : most_jobs;
}

}  // namespace

TileWork::TileWork(const MoverContext& context, TileBuffers* tile_buffers,
                   DeviceTiles* device_tiles, TileListener* listener)
    : context_(context),
      tile_buffers_(tile_buffers),
      device_tiles_(device_tiles),
      listener_(listener),
      jobs_(MostJobs(context.plan, context.workers->threads())),
      most_updates_(MostUpdates(context.plan, static_cast<int>(jobs_.size()))) {
  for (TileJob& job : jobs_) {
    job.work = this;
    free_jobs_.push_back(&job);
  }
}

template <auto kWork, auto kThen>
void TileWork::OnWorker(TileJob& job, SpanKind kind) {
  context_.RunOnWorker(
      {.kind = kind,
       .unit = job.pass->unit,
       .tile = job.tile,
       .work = [this, &job] { (this->*kWork)(job); },
       .then = [this, &job] { context_.thread->Post([this, &job] { (this->*kThen)(job); }); }});
}

template <auto kThen>
void TileWork::WhenDone(StreamId stream, TileJob& job) {
  context_.lane->WhenDone(stream, [this, &job](const absl::Status& status) {
    if (job.status.ok()) job.status = status;
    (this->*kThen)(job);
  });
}

bool TileWork::HasRoom(const Pass& pass) const {
  return !free_jobs_.empty() &&
         (!pass.updates() || updates_running_[pass.streamed] < most_updates_);
}

void TileWork::Begin(Pass& pass) {
  SPILLWAY_CHECK(HasRoom(pass) && !pass.all_begun());
  TileJob& job = *free_jobs_.back();
  free_jobs_.pop_back();
  job.Reset(&pass, pass.NextTile());
  job.first = pass.NextIsFirst();
  ++pass.next_tile;
  if (pass.updates()) ++updates_running_[pass.streamed];
  if (pass.needs_tile_buffer) job.tile_buffer = tile_buffers_->Take(pass.at_turn, job.tile);
  if (pass.kind != PassKind::kRound) {
    tile_buffers_->PointAtPlanes(pass.unit, job.tile, job.tile_buffer, job.planes);
  }
  if (pass.sums != nullptr) {
    SPILLWAY_CHECK(pass.sums->state() == BufferState::kReady);
    job.sums = context_.Address(pass.sums->span) +
               layout_.TileBegin(job.tile) * plan_.SumBytesPerParameter(pass.unit);
  }
  const uint64_t weight_offset = context_.WeightOffset(job.tile);
  if (pass.weights != nullptr) {
    SPILLWAY_CHECK(pass.weights->state() == BufferState::kReady);
    job.weights = context_.Address(pass.weights->span) + weight_offset;
  }
  if (pass.destination != nullptr && (job.first || !pass.fills_first)) {
    SPILLWAY_CHECK(pass.destination->state() == BufferState::kTakingUpdate);
    job.destination = context_.Address(pass.destination->span) + weight_offset;
  }
  if (pass.kind == PassKind::kRound || pass.reads_gradient()) job.gradient = GradientPlace(job);
  if (pass.on_device) {
    device_tiles_->UpdateInPlace(job);
    return WhenDone<&TileWork::UpdatedInPlace>(StreamId::kToHost, job);
  }
  const auto arrived = [](void* job) {
    auto& arrived_job = *static_cast<TileJob*>(job);
    arrived_job.work->Arrived(arrived_job);
  };
  if (pass.at_turn && tile_buffers_->AwaitReadAhead(job.tile, arrived, &job)) return;
  Read(job);
}

// Where the job's rounded gradient is, or shall be, in the host's memory.
char* TileWork::GradientPlace(const TileJob& job) const {
  const int unit = job.pass->unit;
  if (plan_.deferred[unit] && plan_.placements[unit].gradient != Tier::kNvme) {
    return context_.Address(plan_.gradient_homes[unit]) +
           layout_.TileBegin(job.tile) * layout_.gradient_bytes_per_parameter();
  }
  // Rounded in place.
  if (job.sums != nullptr && !plan_.separate_device) return job.sums;
  if (job.sums != nullptr && job.pass->streamed) return nullptr;  // it stays on the device
  return tile_buffers_->Address(job.tile_buffer) + plan_.tile_gradient_offset;
}

// Whether the host's work begins with something from a separate device, and ends with something
// for it.
bool TileWork::NeedsCopyIn(const TileJob& job) const {
  const Pass& pass = *job.pass;
  if (!plan_.separate_device || pass.streamed) return false;
  if (job.sums != nullptr || job.weights != nullptr) return true;
  return (pass.reads_state() || pass.kind == PassKind::kSave) && plan_.HomeOnDevice(pass.unit, 0);
}

bool TileWork::NeedsCopyOut(const TileJob& job) const {
  const Pass& pass = *job.pass;
  if (!plan_.separate_device || pass.on_device || pass.streamed) return false;
  return job.destination != nullptr || ((pass.updates() || pass.kind == PassKind::kInitialize) &&
                                        plan_.HomeOnDevice(pass.unit, 0));
}

void TileWork::Read(TileJob& job) {
  const Pass& pass = *job.pass;
  const int unit = pass.unit, tile = job.tile;
  const int first = plan_.FirstPlaneRead(unit), last = plan_.placements[unit].last_nvme_plane;
  const bool state = pass.reads_state() && first < last;
  const bool gradient = pass.reads_gradient() && context_.GradientInStore(unit);
  const bool copied = NeedsCopyIn(job);
  job.transfers_left = state + gradient + copied;
  if (job.transfers_left == 0) return Arrived(job);
  if (copied) {
    device_tiles_->CopyIn(job);
    WhenDone<&TileWork::CopiedIn>(StreamId::kToHost, job);
  }
  if (state) {
    Submit(job, job.state_request, IoOp::kRead, store_->CurrentTile(unit, tile, first, last),
           job.planes[first], layout_.TilePlanesBytes(unit, tile, first, last));
  }
  if (gradient) {
    Submit(job, job.gradient_request, IoOp::kRead, store_->GradientTile(unit, tile), job.gradient,
           layout_.GradientBytes(unit, tile));
  }
}

void TileWork::Submit(TileJob& job, IoRequest& request, IoOp op, const TileLocation& location,
                      char* data, uint64_t bytes) {
  SPILLWAY_CHECK(data != nullptr && bytes > 0);
  request.op = op;
  request.io_class =
      op == IoOp::kRead && job.pass->fills_forward ? IoClass::kPrefetch : IoClass::kWriteBack;
  request.file = location.file;
  request.offset_bytes = location.offset_bytes;
  request.data = data;
  request.size_bytes = bytes;
  request.unit = job.pass->unit;
  request.tile = job.tile;
  request.context = &job;
  request.done = &TransferDone;
  context_.engine->Submit(&request);
}

void TileWork::TransferDone(IoRequest& request, const absl::Status& status) {
  TileJob& job = *static_cast<TileJob*>(request.context);
  if (job.status.ok()) job.status = status;
  if (request.op == IoOp::kRead) {
    job.work->ReadEnded(job);
  } else {
    job.work->WriteEnded(job);
  }
}

void TileWork::CopiedIn(TileJob& job) {
  if (job.statistics != nullptr) job.partial = job.statistics->partial;
  ReadEnded(job);
}

void TileWork::ReadEnded(TileJob& job) {
  SPILLWAY_CHECK(job.transfers_left > 0);
  if (--job.transfers_left == 0) Arrived(job);
}

void TileWork::Arrived(TileJob& job) {
  if (context_.thread->failed() || !job.status.ok()) return End(job);
  if (job.pass->streamed) return Stream(job);
  OnWorker<&TileWork::Compute, &TileWork::Computed>(job, SpanKindOf(job.pass->kind));
}

// --- On a worker ----------------------------------------------------------------

void TileWork::Compute(TileJob& job) { job.status = ComputeTile(job); }

absl::Status TileWork::ComputeTile(TileJob& job) const {
  const Pass& pass = *job.pass;
  const int unit = pass.unit, tile = job.tile;
  const bool separate = plan_.separate_device;
  if (job.sums != nullptr && !separate) RoundSums(job);
  switch (pass.kind) {
    case PassKind::kRound:
      if (context_.GradientInStore(unit)) {
        job.gradient_checksum = Checksum(store_->GradientIdentity(unit, tile, pass.generation),
                                         job.gradient, layout_.GradientBytes(unit, tile));
      }
      return absl::OkStatus();
    case PassKind::kMeasure:
      RETURN_IF_ERROR(Verify(job));
      context_.compute->Measure(ViewOf(context_, job), pass.scalars, pass.measure);
      return absl::OkStatus();
    case PassKind::kSave:
      ChecksumStale(job);
      return absl::OkStatus();
    case PassKind::kInitialize:
      for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
        std::memset(job.planes[plane], 0, layout_.PlaneBytes(unit, tile, plane));
      }
      RETURN_IF_ERROR((*pass.fill)(ViewOf(context_, job)));
      break;
    case PassKind::kUpdate:
      if (job.weights != nullptr) {
        std::memcpy(job.planes[0], job.weights, layout_.PlaneBytes(unit, tile, 0));
      }
      RETURN_IF_ERROR(Verify(job));
      RETURN_IF_ERROR(context_.compute->Update(ViewOf(context_, job), pass.scalars));
      break;
  }
  ChecksumPlanes(job);
  if (job.destination != nullptr && !separate) {
    std::memcpy(job.destination, job.planes[0], layout_.PlaneBytes(unit, tile, 0));
  }
  return absl::OkStatus();
}

// Rounds the gradient into its place and gathers its statistics; an update from the sums ignores
// those.
void TileWork::RoundSums(TileJob& job) const {
  SPILLWAY_CHECK(job.gradient != nullptr);
  const int unit = job.pass->unit, tile = job.tile;
  const uint64_t parameters = layout_.TileParameters(unit, tile);
  if (!plan_.rounded_sums[unit]) {
    const auto* sums = reinterpret_cast<const float*>(job.sums);
    job.partial = context_.compute->Round(unit, tile, parameters, sums, job.gradient);
  } else if (job.pass->kind == PassKind::kRound) {
    if (job.gradient != job.sums) {
      std::memcpy(job.gradient, job.sums, layout_.GradientBytes(unit, tile));
    }
    job.partial = context_.compute->Learn(unit, tile, parameters, job.gradient);
  }
}

// Verifies the planes that were read from the store for an update.
absl::Status TileWork::Verify(const TileJob& job) const {
  const int unit = job.pass->unit, tile = job.tile;
  const int last = plan_.placements[unit].last_nvme_plane;
  for (int p = plan_.FirstPlaneRead(unit); p < last && job.pass->reads_state(); ++p) {
    RETURN_IF_ERROR(store_->Verify(unit, tile, p, job.planes[p]));
  }
  if (context_.GradientInStore(unit)) {
    const uint64_t checksum =
        Checksum(store_->GradientIdentity(unit, tile, store_->GradientGeneration(unit, tile)),
                 job.gradient, layout_.GradientBytes(unit, tile));
    RETURN_IF_ERROR(store_->VerifyGradientChecksum(unit, tile, checksum));
  }
  return absl::OkStatus();
}

// Computes the checksums of the planes that go to the store.
void TileWork::ChecksumPlanes(TileJob& job) const {
  SPILLWAY_CHECK(job.checksums.empty());  // one a plane
  const int unit = job.pass->unit, tile = job.tile;
  const UnitPlacement& placement = plan_.placements[unit];
  for (int p = placement.first_nvme_plane; p < placement.last_nvme_plane; ++p) {
    job.checksums.push_back(Checksum(store_->PlaneIdentity(unit, tile, p, job.pass->generation),
                                     job.planes[p], layout_.PlaneBytes(unit, tile, p)));
  }
}

// Computes the checksums of planes that reside in memory and are newer than their copy in the
// store.
void TileWork::ChecksumStale(TileJob& job) const {
  const int unit = job.pass->unit, tile = job.tile;
  for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
    if (plan_.placements[unit].InStore(plane)) continue;
    if (!store_->IsStale(unit, tile, plane)) continue;
    job.saved_planes.push_back(plane);
    job.checksums.push_back(Checksum(store_->PlaneIdentity(unit, tile, plane, job.pass->generation),
                                     job.planes[plane], layout_.PlaneBytes(unit, tile, plane)));
  }
}

// --- On the mover's thread again ------------------------------------------------

void TileWork::Computed(TileJob& job) {
  if (context_.thread->failed() || !job.status.ok()) return End(job);
  const Pass& pass = *job.pass;
  if (pass.updates() || pass.kind == PassKind::kInitialize) MarkStale(job);
  if (pass.updates()) {
    context_.record->Count([&](SwapStats& stats) {
      ++stats.tiles_updated;
      if (job.destination == nullptr) return;
      stats.update_filled_bytes += layout_.PlaneBytes(pass.unit, job.tile, 0);
    });
  }
  if (NeedsCopyOut(job)) device_tiles_->CopyOut(job);
  listener_->TileComputed(job);
  Write(job);
}

void TileWork::MarkStale(const TileJob& job) const {
  if (store_ == nullptr) return;
  const int unit = job.pass->unit, planes = layout_.NumPlanes(unit);
  const UnitPlacement& placement = plan_.placements[unit];
  const int first = placement.any_nvme() ? placement.first_nvme_plane : 0;
  const int last = placement.any_nvme() ? placement.last_nvme_plane : 0;
  if (first > 0) store_->MarkStale(unit, job.tile, 0, first);
  if (last < planes) store_->MarkStale(unit, job.tile, last, planes);
}

void TileWork::Write(TileJob& job) {
  const Pass& pass = *job.pass;
  const int unit = pass.unit, tile = job.tile;
  const UnitPlacement& placement = plan_.placements[unit];
  if (pass.kind == PassKind::kSave) return WriteStale(job);
  const bool copied = NeedsCopyOut(job);  // it is on its way
  const bool gradient = pass.kind == PassKind::kRound && placement.gradient == Tier::kNvme;
  const bool state = (pass.updates() || pass.kind == PassKind::kInitialize) && placement.any_nvme();
  job.transfers_left = copied + gradient + state;
  if (job.transfers_left == 0) return End(job);
  if (copied) {
    WhenDone<&TileWork::WriteEnded>(StreamId::kToDevice, job);
  }
  if (gradient) {
    Submit(job, job.gradient_request, IoOp::kWrite, store_->GradientTile(unit, tile), job.gradient,
           layout_.GradientBytes(unit, tile));
  }
  if (state) {
    const int first = placement.first_nvme_plane, last = placement.last_nvme_plane;
    Submit(job, job.state_request, IoOp::kWrite, store_->WritableTile(unit, tile, first),
           job.planes[first], layout_.TilePlanesBytes(unit, tile, first, last));
  }
}

void TileWork::WriteStale(TileJob& job) {
  const int unit = job.pass->unit;
  const size_t count = job.saved_planes.size();
  if (count == 0) return End(job);
  job.transfers_left = static_cast<int>(count);
  job.save_requests.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const int plane = job.saved_planes[i];
    Submit(job, job.save_requests[i], IoOp::kWrite, store_->WritableTile(unit, job.tile, plane),
           job.planes[plane], layout_.PlaneBytes(unit, job.tile, plane));
  }
}

void TileWork::WriteEnded(TileJob& job) {
  SPILLWAY_CHECK(job.transfers_left > 0);
  if (--job.transfers_left == 0) Written(job);
}

void TileWork::Written(TileJob& job) {
  const Pass& pass = *job.pass;
  const int unit = pass.unit, tile = job.tile;
  if (!job.status.ok()) return End(job);
  if (pass.kind == PassKind::kRound) {
    store_->RecordGradientWrite(unit, tile, job.gradient_checksum, pass.generation);
  } else if (pass.kind == PassKind::kSave) {
    for (size_t i = 0; i < job.saved_planes.size(); ++i) {
      store_->RecordWrite(unit, tile, job.saved_planes[i], {&job.checksums[i], 1}, pass.generation);
    }
  } else if (!job.checksums.empty()) {
    store_->RecordWrite(unit, tile, plan_.placements[unit].first_nvme_plane, job.checksums,
                        pass.generation);
  }
  End(job);
}

void TileWork::End(TileJob& job) {
  Pass& pass = *job.pass;
  SPILLWAY_CHECK(job.device_tile < 0);
  if (job.tile_buffer >= 0) tile_buffers_->Return(job.tile_buffer);
  device_tiles_->GiveBackStatistics(job);
  if (pass.updates()) {
    SPILLWAY_CHECK(updates_running_[pass.streamed] > 0);
    --updates_running_[pass.streamed];
  }
  if (!job.status.ok()) context_.thread->Fail(job.status);
  free_jobs_.push_back(&job);
  SPILLWAY_CHECK(free_jobs_.size() <= jobs_.size());
  if (!context_.thread->failed()) listener_->TileEnded(pass);
}

// --- Streamed updates, and those in a device's own memory -------------------------

// The tile is in the host's memory: a worker checks what came from the store.
void TileWork::Stream(TileJob& job) {
  const int unit = job.pass->unit;
  if (plan_.UpdateBytesRead(unit) == 0 && !context_.GradientInStore(unit)) {
    return QueueStreamed(job);
  }
  OnWorker<&TileWork::VerifyStreamed, &TileWork::QueueStreamed>(job, SpanKind::kCheck);
}

void TileWork::VerifyStreamed(TileJob& job) { job.status = Verify(job); }

// Goes on when there is memory for the tile on the device.
void TileWork::QueueStreamed(TileJob& job) {
  SPILLWAY_CHECK(job.pass->streamed && job.device_tile < 0);
  if (context_.thread->failed() || !job.status.ok()) return End(job);
  to_stream_.push_back(&job);
  StartStreamed();
}

void TileWork::StartStreamed() {
  while (!to_stream_.empty()) {
    TileJob& job = *to_stream_.front();
    const bool failed = context_.thread->failed();
    if (!failed && !device_tiles_->TakeMemory(job)) return;
    to_stream_.pop_front();
    if (failed) {
      End(job);
      continue;
    }
    device_tiles_->UpdateStreamed(job);
    if (++job.pass->tiles_streamed == job.pass->num_tiles) listener_->PassStreamed(*job.pass);
    WhenDone<&TileWork::Streamed>(StreamId::kToHost, job);
  }
}

// The new planes are in the host's memory.
void TileWork::Streamed(TileJob& job) {
  device_tiles_->GiveBackMemory(job);
  StartStreamed();
  const bool good = job.status.ok() && !context_.thread->failed();
  if (good && job.statistics->largest_magnitude != 0) return FindUnstorable(job);
  ChecksumStreamed(job);
}

void TileWork::ChecksumStreamed(TileJob& job) {
  const bool good = job.status.ok() && !context_.thread->failed();
  if (!good || !plan_.placements[job.pass->unit].any_nvme()) return Computed(job);
  OnWorker<&TileWork::ChecksumPlanes, &TileWork::Computed>(job, SpanKind::kCheck);
}

void TileWork::UpdatedInPlace(TileJob& job) {
  const bool good = job.status.ok() && !context_.thread->failed();
  if (good && job.statistics->largest_magnitude != 0) return FindUnstorable(job);
  Computed(job);
}

// A master of the tile may not stand: what its planes have become says which.
void TileWork::FindUnstorable(TileJob& job) {
  device_tiles_->CopyPlanes(job.pass->unit, job.tile, /*to_device=*/false, job.planes);
  WhenDone<&TileWork::CheckUnstorable>(StreamId::kToHost, job);
}

void TileWork::CheckUnstorable(TileJob& job) {
  if (job.status.ok()) {
    job.status = context_.compute->CheckUpdated(ViewOf(context_, job), job.pass->scalars,
                                                job.statistics->largest_magnitude);
  }
  if (job.pass->streamed) return ChecksumStreamed(job);
  Computed(job);
}

}  // namespace spillway
