// A device with memory of its own: what an operation uses is copied there, and what it leaves is
// brought back.
//
// The mover never waits for the device. An operation is granted when all that it uses has been
// put into the device's streams, and the compute stream waits for it there; weights may be
// overwritten when the operations that read them have been put there, and who overwrites them
// waits in its stream. Only what the host's side needs (a gradient that an update takes, a
// buffer that is to be used again) is told when it is done.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "swap/mover/mover.h"
#include "swap/mover/mover_internal.h"

namespace spillway {

// Calls `then`, as a task of the mover's, when all that `stream` has so far is done.
void SwapManager::Mover::NoteWhenDone(StreamId stream, Done then) {
  device_->Notify(stream, [this, then = std::move(then)](const absl::Status& status) {
    Post([this, then, status] {
      if (!status.ok()) Fail(status);
      then(status);
    });
  });
}

void SwapManager::Mover::TimedCopy(StreamId stream, SpanKind direction, int unit, char* to,
                                   const char* from, uint64_t bytes) {
  device_->Notify(stream, [this, direction](const absl::Status&) {
    times_.CopyBegins(direction, Trace::Now());
  });
  device_->Copy(stream, to, from, bytes);
  device_->Notify(stream, [this, direction, unit, bytes](const absl::Status&) {
    times_.CopyEnds(direction, unit, bytes, Trace::Now());
  });
}

void SwapManager::Mover::CopyToDevice(int unit, char* to, const char* from, uint64_t bytes) {
  TimedCopy(StreamId::kToDevice, SpanKind::kCopyToDevice, unit, to, from, bytes);
  MutexLock lock(mutex_);
  stats_.to_device_bytes += bytes;
}

void SwapManager::Mover::CopyToHost(int unit, char* to, const char* from, uint64_t bytes) {
  TimedCopy(StreamId::kToHost, SpanKind::kCopyToHost, unit, to, from, bytes);
  MutexLock lock(mutex_);
  stats_.to_host_bytes += bytes;
}

bool SwapManager::Mover::OnDevice(const Stay& stay) const {
  return device_ != nullptr && stay.span.tier == Tier::kDevice;
}

bool SwapManager::Mover::UpdatesOnDevice(const Pass& pass) const {
  return pass.kind == PassKind::kUpdate && plan_.UpdatesOnDevice(pass.unit);
}

// --- Addresses ----------------------------------------------------------------

// The first in `stream` to use the stay's addresses is what comes next.
void SwapManager::Mover::WaitForAddresses(Stay& stay, StreamId stream) {
  stay.used = true;
  for (const DeviceEvent& event : std::exchange(stay.waits, {})) device_->Wait(stream, event);
}

// Who has the addresses next waits for what this stay has been used for.
void SwapManager::Mover::LeaveAddresses(Stay& stay) {
  if (!stay.used) return;
  std::vector<DeviceEvent> after;
  for (const DeviceEvent& event : {stay.filled, stay.last_use}) {
    if (event != nullptr) after.push_back(event);
  }
  // Over the turn of two steps another stay may have them already, with the new weights in it.
  Stay* successor = nullptr;
  for (auto& other : stays_) {
    if (other->takes_over && stay.feeds_update && other->unit == stay.unit &&
        other->version == stay.version + 1 && other->state != StayState::kWaiting) {
      successor = other.get();
    }
  }
  if (successor != nullptr && successor->used) return;
  if (DeviceEvent discarded = device_->Discard(Address(stay.span), stay.span.bytes, after)) {
    after.push_back(std::move(discarded));
  }
  uses_.Note(stay.span, std::move(after));
  if (successor != nullptr) successor->waits = uses_.Over(stay.span);
}

// --- Weights --------------------------------------------------------------------

void SwapManager::Mover::StartFilling(Stay& stay) {
  stay.state = StayState::kFetching;
  Event(absl::StrCat("fetch ", stay.unit));
  const int tiles = layout_.NumTiles(stay.unit);
  if (plan_.placements[stay.unit].weight == Tier::kNvme && tiles > 0) {
    stay.fetches.resize(tiles);
    stay.fetches_left = tiles;
    return;
  }
  WaitForAddresses(stay, StreamId::kToDevice);
  if (tiles > 0) {
    CopyToDevice(stay.unit, Address(stay.span), Address(plan_.plane_homes[stay.unit][0]),
                 stay.span.bytes);
  }
  stay.filled = device_->Record(StreamId::kToDevice);
  stay.state = StayState::kReady;
}

// From the store a tile at a time, through as many stages as there are; the stay that is
// needed first has them first.
void SwapManager::Mover::StageFetches() {
  if (device_ == nullptr) return;
  for (auto& stay : stays_) {
    if (free_stages_.empty()) return;
    if (!OnDevice(*stay) || stay->state != StayState::kFetching) continue;
    while (stay->next_fetch < stay->fetches.size() && !free_stages_.empty()) {
      const int tile = static_cast<int>(stay->next_fetch++);
      const int stage = free_stages_.back();
      free_stages_.pop_back();
      stay->fetches[tile].stage = stage;
      IoRequest& request =
          PrepareTransfer(*stay, tile, IoOp::kRead, Address(plan_.stage_spans[stage]));
      request.done = &FetchReadDone;
      engine_->Submit(&request);
    }
  }
}

// A tile has come from the store and been checked: on to the device.
void SwapManager::Mover::CopyStaged(Fetch& fetch, const absl::Status& status) {
  if (failed_ || !status.ok()) return FetchDone(fetch, status);
  Stay& stay = *fetch.stay;
  WaitForAddresses(stay, StreamId::kToDevice);
  CopyToDevice(
      stay.unit,
      Address(stay.span) + layout_.TileBegin(fetch.tile) * layout_.planes()[0].bytes_per_parameter,
      fetch.request.data, fetch.request.size_bytes);
  NoteWhenDone(StreamId::kToDevice,
               [this, stage = fetch.stage](absl::Status) { free_stages_.push_back(stage); });
  if (stay.fetches_left == 1) stay.filled = device_->Record(StreamId::kToDevice);
  FetchDone(fetch, absl::OkStatus());
}

// --- Operations -------------------------------------------------------------------

// Before the op that is granted: all that it uses is there.
void SwapManager::Mover::WaitInComputeStream(const StepOp& op, bool sums, SpanKind waited_for) {
  const bool computes = ops_stream_ == StreamId::kCompute;
  if (computes) {
    DeviceTimes::Grant grant;
    grant.op = SpanKindOf(op.kind);
    grant.unit = op.unit;
    grant.waited_for = waited_for;
    grant.wait_began_ns = static_cast<int64_t>(op_wait_began_ * 1e9);
    grant.granted_ns = Trace::Now();
    device_->Notify(ops_stream_,
                    [this, grant](const absl::Status&) { times_.OpComes(grant, Trace::Now()); });
  }
  for (int unit : op.weights) {
    if (plan_.ReadsHome(unit)) continue;
    device_->Wait(ops_stream_, FindStay(StayUse::kWeights, unit, next_op_)->filled);
  }
  for (int unit : op.gradients) {
    if (sums) WaitForAddresses(*FindStay(StayUse::kSums, unit, next_op_), ops_stream_);
  }
  if (computes) {
    device_->Notify(ops_stream_, [this](const absl::Status&) { times_.OpBegins(Trace::Now()); });
  }
}

// The op has been put into the compute stream. What it uses of the host's memory is its own
// until it is done.
void SwapManager::Mover::EndOpOnDevice(int64_t op) {
  op_done_ = device_->Record(ops_stream_);
  if (ops_stream_ == StreamId::kCompute) {
    device_->Notify(ops_stream_, [this](const absl::Status&) { times_.OpEnds(Trace::Now()); });
  }
  Stay* input = nullptr;
  for (auto& stay : stays_) {
    if (stay->abandoned || stay->state == StayState::kReleased || stay->last_op != op) continue;
    if (OnDevice(*stay)) {
      stay->last_use = op_done_;
    } else {
      SPILLWAY_CHECK(input == nullptr);
      input = stay.get();
    }
  }
  NoteWhenDone(ops_stream_, [this, input](absl::Status status) {
    if (input == nullptr || failed_ || !status.ok()) return;
    if (input->use == StayUse::kSavedInput) {
      StartSavingInput(*input);
    } else {
      ReleaseStay(*input);
    }
  });
}

// --- Tiles ------------------------------------------------------------------------

// Copies the planes of a tile that live on the device, from or to `planes` in the host's memory.
void SwapManager::Mover::CopyPlanes(int unit, int tile, bool to_device,
                                    const std::vector<char*>& planes) {
  for (int plane = 0; plane < layout_.num_planes(); ++plane) {
    if (!plan_.HomeOnDevice(unit, plane)) continue;
    char* const home = PlaneHome(unit, tile, plane);
    const uint64_t bytes = layout_.PlaneBytes(unit, tile, plane);
    if (to_device) {
      CopyToDevice(unit, home, planes[plane], bytes);
    } else {
      CopyToHost(unit, planes[plane], home, bytes);
    }
  }
}

// Of the device's own work on the task's tile.
void SwapManager::Mover::TimedLaunch(const TileTask& task, Device::Kernel kernel) {
  device_->Notify(StreamId::kToHost,
                  [this](const absl::Status&) { times_.UpdateBegins(Trace::Now()); });
  device_->Launch(StreamId::kToHost, std::move(kernel));
  device_->Notify(StreamId::kToHost,
                  [this, unit = task.pass->unit, tile = task.tile](const absl::Status&) {
                    times_.UpdateEnds(unit, tile, Trace::Now());
                  });
}

// Rounds the task's sums into `gradient`, in the device's memory.
void SwapManager::Mover::RoundOnDevice(TileTask* task, char* gradient) {
  Pass& pass = *task->pass;
  device_->Wait(StreamId::kToHost, std::exchange(pass.sums_complete, nullptr));
  TimedLaunch(*task, [this, unit = pass.unit, tile = task->tile,
                      sums = reinterpret_cast<const float*>(task->sums), gradient,
                      learned = Learned()](void* native_stream) {
    return compute_->RoundOnDevice(native_stream, unit, tile, layout_.TileParameters(unit, tile),
                                   sums, gradient, &learned->partial);
  });
}

// What the device learns of the tile it works on: the host's copy of it is the task's own.
SwapManager::Mover::LearnedOfTile* SwapManager::Mover::Learned() const {
  const ArenaSpan& span = plan_.rounded_span;
  return reinterpret_cast<LearnedOfTile*>(Address(span) + span.bytes - kPartialBytes);
}

SwapManager::Mover::LearnedOfTile* SwapManager::Mover::TakeLearned(TileTask* task) {
  static_assert(sizeof(LearnedOfTile) <= kPartialBytes);
  SPILLWAY_CHECK(!free_partials_.empty());
  task->partial_slot = free_partials_.back();
  free_partials_.pop_back();
  char* const slot = Address(plan_.partials_span) + task->partial_slot * kPartialBytes;
  // Too little to be worth a time.
  device_->Copy(StreamId::kToHost, slot, Learned(), sizeof(LearnedOfTile));
  {
    MutexLock lock(mutex_);
    stats_.to_host_bytes += sizeof(LearnedOfTile);
  }
  return reinterpret_cast<LearnedOfTile*>(slot);
}

// What a task's work on the host begins with. Sums are rounded there, one tile after the other
// through the same memory, and the gradient is brought, unless it stays; for an update also the
// old weights, where they are nowhere else; for a save all that lives there.
void SwapManager::Mover::BringFromDevice(TileTask* task) {
  const Pass& pass = *task->pass;
  const int unit = pass.unit, tile = task->tile;
  LearnedOfTile* learned = nullptr;
  if (task->sums) {
    const bool stays = plan_.deferred[unit] && plan_.placements[unit].gradient == Tier::kDevice;
    char* const gradient = stays ? task->gradient : Address(plan_.rounded_span);
    RoundOnDevice(task, gradient);
    if (!stays) CopyToHost(unit, task->gradient, gradient, layout_.GradientBytes(unit, tile));
    learned = TakeLearned(task);
  }
  if (task->weights) {
    CopyToHost(unit, task->planes[0], std::exchange(task->weights, nullptr),
               layout_.PlaneBytes(unit, tile, 0));
  } else if (pass.kind != PassKind::kRound) {
    CopyPlanes(unit, tile, /*to_device=*/false, task->planes);
  }
  NoteWhenDone(StreamId::kToHost, [this, task, learned](absl::Status status) {
    if (learned != nullptr) task->partial = learned->partial;
    TransferEnded(task, IoOp::kRead, status);
  });
}

// What its work on the host has made: new weights for a forward, or for where they live; the
// first state.
void SwapManager::Mover::TakeToDevice(TileTask* task) {
  const Pass& pass = *task->pass;
  if (task->destination) {
    WaitForAddresses(*pass.destination, StreamId::kToDevice);
    CopyToDevice(pass.unit, task->destination, task->planes[0],
                 layout_.PlaneBytes(pass.unit, task->tile, 0));
  } else {
    CopyPlanes(pass.unit, task->tile, /*to_device=*/true, task->planes);
  }
}

// Where the tile's planes and its rounded gradient are there.
void SwapManager::Mover::LaunchUpdate(TileTask* task, std::vector<char*> planes, char* gradient) {
  TimedLaunch(*task, [this, view = ViewOf(*task), planes = std::move(planes), gradient,
                      scalars = task->pass->scalars, learned = Learned()](void* stream) mutable {
    view.planes = planes.data();
    view.gradient = gradient;
    return compute_->UpdateOnDevice(stream, view, scalars, &learned->largest_magnitude);
  });
}

// The update of a tile all of which lives there.
void SwapManager::Mover::UpdateOnDevice(TileTask* task) {
  const Pass& pass = *task->pass;
  const int unit = pass.unit, tile = task->tile;
  char* gradient = task->gradient;
  if (task->sums) {
    gradient = Address(plan_.rounded_span);
    RoundOnDevice(task, gradient);
  }
  std::vector<char*> planes;
  for (int plane = 0; plane < layout_.num_planes(); ++plane) {
    planes.push_back(PlaneHome(unit, tile, plane));
  }
  LaunchUpdate(task, std::move(planes), gradient);
  LearnedOfTile* const learned = TakeLearned(task);
  NoteWhenDone(StreamId::kToHost, [this, task, learned](absl::Status status) {
    if (!status.ok() || failed_ || learned->largest_magnitude == 0) {
      return TileComputed(task, status);
    }
    CheckUpdated(task, learned->largest_magnitude);
  });
}

// A master of it may not stand: what the tile's planes have become says which.
void SwapManager::Mover::CheckUpdated(TileTask* task, uint32_t largest_magnitude) {
  CopyPlanes(task->pass->unit, task->tile, /*to_device=*/false, task->planes);
  NoteWhenDone(StreamId::kToHost, [this, task, largest_magnitude](absl::Status status) {
    if (status.ok()) {
      status = compute_->CheckUpdated(ViewOf(*task), task->pass->scalars, largest_magnitude);
    }
    if (Streams(*task->pass)) return ChecksumStreamed(task, status);
    TileComputed(task, status);
  });
}

}  // namespace spillway
