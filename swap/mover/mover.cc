#include "swap/mover/mover.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/clock.h"
#include "io/base/status.h"
#include "swap/mover/mover_internal.h"
#include "swap/mover/waited_for.h"

namespace spillway {
namespace {

int OpsUpToLoss(const StepSchedule& schedule) {
  for (size_t i = 0; i < schedule.ops.size(); ++i) {
    if (schedule.ops[i].kind == OpKind::kLoss) return static_cast<int>(i) + 1;
  }
  return static_cast<int>(schedule.ops.size());
}

// Where some updates are streamed and others are not, neither kind keeps the other from starting.
int MaxUpdates(const SwapPlan& plan, int max_tasks) {
  const auto streamed = [&](const GradientStay& stay) { return plan.streams_update[stay.unit]; };
  const auto& stays = plan.gradient_stays;
  const bool both = std::any_of(stays.begin(), stays.end(), streamed) &&
                    !std::all_of(stays.begin(), stays.end(), streamed);
  return both ? (max_tasks + 1) / 2 : max_tasks;
}

}  // namespace

SwapManager::Mover::Mover(const SwapPlan& plan, SwapStore* store, Arena* host_arena,
                          Arena* device_arena, TileCompute* compute, int workers,
                          Executor* executor, Device* device, StreamId ops_stream, Trace* trace)
    : plan_(plan),
      layout_(plan.layout),
      store_(store),
      arenas_{device_arena, host_arena},
      compute_(compute),
      deferred_(plan.schedule.update == UpdateMode::kDeferred),
      evaluate_ops_(OpsUpToLoss(plan.schedule)),
      max_tasks_(std::min(std::max({plan.tile_buffers + plan.turn_tiles(), 2 * workers,
                                    static_cast<int>(plan.device_tile_spans.size())}),
                          device ? kMaxDeviceTiles : INT_MAX)),
      max_updates_(MaxUpdates(plan, max_tasks_)),
      executor_(executor),
      device_(device),
      ops_stream_(ops_stream),
      trace_(trace),
      waits_(ops_stream == StreamId::kCompute ? trace : nullptr),
      workers_(workers, executor),
      settled_(plan.layout.num_units(), 0),
      saved_(plan.layout.num_units(), -1),
      times_(trace),
      commit_thread_(1, executor),
      partials_(plan.layout.num_units()) {
  for (int i = 0; i < plan.tile_buffers; ++i) free_tile_buffers_.push_back(i);
  tile_spans_ = plan.tile_spans;
  for (const TurnStay& stay : plan.turn_stays) {
    for (int i = 0; i < stay.tiles; ++i) {
      tile_spans_.push_back(
          {stay.span.tier, stay.span.offset + i * plan.tile_buffer_bytes, plan.tile_buffer_bytes});
    }
  }
  turn_stays_.resize(plan.turn_stays.size());
  for (int i = 0; i < plan.stage_spans.size(); ++i) free_stages_.push_back(i);
  for (int i = 0; device && i < kMaxDeviceTiles; ++i) free_partials_.push_back(i);
  for (int i = 0; i < plan.device_tile_spans.size(); ++i) free_device_tiles_.push_back(i);
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    partials_[unit].resize(layout_.NumTiles(unit));
  }
}

absl::Status SwapManager::Mover::error() const {
  MutexLock lock(mutex_);
  return error_;
}

void SwapManager::Mover::Fail(const absl::Status& status) {
  failed_ = true;
  MutexLock lock(mutex_);
  if (error_.ok()) error_ = status;
}

void SwapManager::Mover::FailWaiters() {
  for (Done* waiter :
       {&op_waiter_, &gradients_waiter_, &flush_waiter_, &initialize_waiter_, &commit_waiter_}) {
    if (*waiter) std::exchange(*waiter, nullptr)(error());
  }
}

SwapStats SwapManager::Mover::stats() const {
  MutexLock lock(mutex_);
  SwapStats stats = stats_;
  stats.io = engine_->stats();
  stats.update_busy_seconds = workers_.busy_seconds();
  if (device_ == nullptr) return stats;
  const DeviceSeconds seconds = times_.At(Trace::Now());
  stats.copies_to_device = seconds.to_device;
  stats.copies_to_host = seconds.to_host;
  stats.copy_busy_seconds = seconds.copying;
  stats.device_update_seconds = seconds.updating;
  stats.compute_busy_seconds = seconds.computing;
  stats.stall_disk_seconds = seconds.stalled_disk;
  stats.stall_update_seconds = seconds.stalled_update;
  stats.stall_commit_seconds = seconds.stalled_commit;
  stats.stall_copy_seconds = seconds.stalled_copy;
  return stats;
}

void SwapManager::Mover::Event(std::string text) {
  if (!record_events_) return;
  MutexLock lock(mutex_);
  events_.push_back(std::move(text));
}

std::vector<std::string> SwapManager::Mover::TakeEvents() {
  MutexLock lock(mutex_);
  return std::exchange(events_, {});
}

void SwapManager::Mover::Pump() {
  // One thing that happens here may be what another waits for, and nobody else will
  // wake us for it.
  do {
    pump_again_ = false;
    if (failed_) return;
    AllocateStays();
    StageFetches();
    ReadAheadAtTurn();
    AdvanceCommit();
    StartTiles();
    TryGrantOp();
    CheckWaiters();
  } while (pump_again_);
}

char* SwapManager::Mover::Address(const ArenaSpan& span) const {
  return arenas_[static_cast<int>(span.tier)]->data() + span.offset;
}

// --- Programs ---------------------------------------------------------------

void SwapManager::Mover::Enqueue(Program kind) {
  EnqueuedProgram program;
  program.kind = kind;
  program.first_op = end_op_;
  program.num_ops =
      kind == Program::kTrain ? static_cast<int>(plan_.schedule.ops.size()) : evaluate_ops_;
  program.version = train_programs_;
  end_op_ += program.num_ops;
  if (kind == Program::kTrain) ++train_programs_;
  AddStays(program);
  programs_.push_back(program);
}

void SwapManager::Mover::AbandonQueued() {
  while (!programs_.empty() && programs_.back().first_op >= next_op_) {
    const EnqueuedProgram& program = programs_.back();
    for (auto& stay : stays_) {
      if (stay->first_op < program.first_op || stay->abandoned) continue;
      stay->abandoned = true;
      // One that is being filled is released when that has ended.
      if (stay->state != StayState::kFetching && stay->state != StayState::kTakingUpdate) {
        ReleaseStay(*stay);
      }
    }
    end_op_ = program.first_op;
    if (program.kind == Program::kTrain) --train_programs_;
    programs_.pop_back();
  }
}

// Stays that the program uses are left as they are: nobody comes after them.
void SwapManager::Mover::AbandonRunning(bool* whole, Done done) {
  if (failed_) return done(error());
  AbandonQueued();
  *whole = true;
  if (!programs_.empty()) {
    const int64_t version = programs_.front().version;
    const auto later = [&](int64_t other) { return other > version; };
    *whole = std::none_of(settled_.begin(), settled_.end(), later) &&
             std::none_of(passes_.begin(), passes_.end(), [&](const auto& pass) {
               return pass->kind == PassKind::kUpdate && later(pass->version);
             });
    for (auto& stay : stays_) {
      if (stay->state == StayState::kWaiting) stay->state = StayState::kReleased;
    }
    programs_.clear();
  }
  done(absl::OkStatus());
}

void SwapManager::Mover::RequestOp(OpBuffers* buffers, Done done) {
  if (failed_) return done(error());
  SPILLWAY_CHECK(next_op_ < end_op_);  // a program is enqueued
  op_buffers_ = buffers;
  op_waiter_ = std::move(done);
  op_wait_began_ = MonotonicSeconds();
  update_busy_at_wait_ = workers_.busy_seconds();
  if (device_ != nullptr) {
    disk_busy_at_wait_ = engine_->stats().busy_seconds;
    const DeviceSeconds seconds = times_.At(Trace::Now());
    copy_busy_at_wait_ = seconds.copying;
    device_update_at_wait_ = seconds.updating;
  }
  held_by_commit_ = false;
}

bool SwapManager::Mover::OpReady(const StepOp& op, const EnqueuedProgram& program) {
  for (int unit : op.weights) {
    if (plan_.ReadsHome(unit)) {
      if (settled_[unit] != program.version) return false;
    } else if (FindStay(StayUse::kWeights, unit, next_op_)->state != StayState::kReady) {
      return false;
    }
  }
  if (program.kind == Program::kEvaluate) return true;
  for (int unit : op.gradients) {
    if (FindStay(StayUse::kSums, unit, next_op_)->state != StayState::kReady) return false;
  }
  return InputReady(op);
}

// Of what keeps it waiting now, what was busy for most of the time.
SpanKind SwapManager::Mover::WhatOpWaitedFor(double waited_seconds) const {
  if (held_by_commit_) return SpanKind::kWaitCommit;
  BusyMeanwhile busy;
  busy.workers = (workers_.busy_seconds() - update_busy_at_wait_) / workers_.threads();
  if (device_ != nullptr) {
    busy.disk = engine_->stats().busy_seconds - disk_busy_at_wait_;
    const DeviceSeconds seconds = times_.At(Trace::Now());
    busy.copy = seconds.copying - copy_busy_at_wait_;
    busy.device_update = seconds.updating - device_update_at_wait_;
  }
  return WaitedFor(waited_seconds, busy);
}

void SwapManager::Mover::TryGrantOp() {
  if (!op_waiter_) return;
  const EnqueuedProgram& program = programs_.front();
  const int index = static_cast<int>(next_op_ - program.first_op);
  const StepOp& op = plan_.schedule.ops[index];
  if (!OpReady(op, program)) return;

  OpBuffers& buffers = *op_buffers_;
  buffers.op = &op;
  buffers.index = index;
  for (int unit : op.weights) {
    const ArenaSpan& span = plan_.ReadsHome(unit)
                                ? plan_.plane_homes[unit][0]
                                : FindStay(StayUse::kWeights, unit, next_op_)->span;
    buffers.weights.push_back(Address(span));
  }
  if (program.kind == Program::kTrain) {
    for (int unit : op.gradients) {
      const Stay* sums = FindStay(StayUse::kSums, unit, next_op_);
      buffers.gradients.push_back(Address(sums->span));
      buffers.rounded.push_back(plan_.rounded_sums[unit]);
      buffers.fresh.push_back(sums->first_op == next_op_);
    }
    PointAtInputs(op, buffers);
    if (op.kind == OpKind::kLoss) {
      train_version_ = program.version;
      // Awaited only where every update is deferred.
      gradients_to_round_ = static_cast<int>(plan_.gradient_stays.size());
    }
  }
  const double waited = MonotonicSeconds() - op_wait_began_;
  const SpanKind waited_for = WhatOpWaitedFor(waited);
  if (device_ != nullptr) {
    WaitInComputeStream(op, program.kind == Program::kTrain, waited_for);
  } else {
    MutexLock lock(mutex_);
    (waited_for == SpanKind::kWaitCommit   ? stats_.stall_commit_seconds
     : waited_for == SpanKind::kWaitUpdate ? stats_.stall_update_seconds
                                           : stats_.stall_disk_seconds) += waited;
    RecordWait(waits_, op, waited_for, op_wait_began_);
  }
  ++next_op_;
  pump_again_ = true;
  std::exchange(op_waiter_, nullptr)(absl::OkStatus());
}

void SwapManager::Mover::FinishOp() {
  const EnqueuedProgram program = programs_.front();
  const int64_t op = next_op_ - 1;
  if (device_ != nullptr) EndOpOnDevice(op);
  std::vector<Stay*> complete;  // gradient sums that no later op adds to
  for (auto& stay : stays_) {
    // Those of a program that was abandoned while they were being filled have the numbers of
    // ops that others have now, and stand before them.
    if (stay->abandoned) continue;
    if (stay->first_op > op) break;
    if (stay->state == StayState::kReleased || stay->last_op != op) continue;
    // The op may still use the host's memory: EndOpOnDevice sees to it.
    if (device_ != nullptr && !OnDevice(*stay)) continue;
    if (stay->use == StayUse::kSums) {
      complete.push_back(stay.get());
    } else if (stay->use == StayUse::kSavedInput) {
      StartSavingInput(*stay);
    } else if (!stay->feeds_update && stay->use != StayUse::kTurnTiles) {
      ReleaseStay(*stay);
    }
  }
  for (Stay* sums : complete) {
    if (plan_.deferred[sums->unit]) {
      StartRounding(sums->unit, sums, program.version);
    } else {
      StartUpdate(sums->unit, sums, program.version + 1);
    }
  }
  if (op + 1 < program.first_op + program.num_ops) return;
  // Where the norm of all gradients is awaited, AnnounceUpdate starts them.
  if (program.kind == Program::kTrain && !deferred_) StartDeferredUpdates(program.version + 1);
  programs_.pop_front();
}

}  // namespace spillway
