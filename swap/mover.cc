#include "swap/mover.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/check.h"
#include "io/status.h"
#include "swap/mover_internal.h"

namespace spillway {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int OpsUpToLoss(const StepSchedule& schedule) {
  for (size_t i = 0; i < schedule.ops.size(); ++i) {
    if (schedule.ops[i].kind == OpKind::kLoss) return static_cast<int>(i) + 1;
  }
  return static_cast<int>(schedule.ops.size());
}

}  // namespace

SwapManager::Mover::Mover(const SwapPlan& plan, SwapStore* store, Arena* host_arena,
                          Arena* device_arena, TileCompute* compute, int workers,
                          Executor* executor, Device* device, Trace* trace)
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
      executor_(executor),
      device_(device),
      trace_(trace),
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
  op_wait_began_ = Now();
  update_busy_at_wait_ = workers_.busy_seconds();
  if (device_ != nullptr) {
    disk_busy_at_wait_ = engine_->stats().busy_seconds;
    copy_busy_at_wait_ = times_.At(Trace::Now()).copying;
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
  const double computing = (workers_.busy_seconds() - update_busy_at_wait_) / workers_.threads();
  if (computing > waited_seconds / 2) return SpanKind::kWaitUpdate;
  if (device_ == nullptr) return SpanKind::kWaitDisk;
  const double reading = engine_->stats().busy_seconds - disk_busy_at_wait_;
  const double copying = times_.At(Trace::Now()).copying - copy_busy_at_wait_;
  const bool copies = copying > waited_seconds / 2 && copying > reading;
  return copies ? SpanKind::kWaitCopy : SpanKind::kWaitDisk;
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
      buffers.gradients.push_back(reinterpret_cast<float*>(Address(sums->span)));
      buffers.fresh.push_back(sums->first_op == next_op_);
    }
    PointAtInputs(op, buffers);
    if (op.kind == OpKind::kLoss) {
      train_version_ = program.version;
      // Awaited only where every update is deferred.
      gradients_to_round_ = static_cast<int>(plan_.gradient_stays.size());
    }
  }
  const double waited = Now() - op_wait_began_;
  const SpanKind waited_for = WhatOpWaitedFor(waited);
  if (device_ != nullptr) {
    WaitInComputeStream(op, program.kind == Program::kTrain, waited_for);
  } else {
    MutexLock lock(mutex_);
    (waited_for == SpanKind::kWaitCommit   ? stats_.stall_commit_seconds
     : waited_for == SpanKind::kWaitUpdate ? stats_.stall_update_seconds
                                           : stats_.stall_disk_seconds) += waited;
    RecordWait(trace_, op, waited_for, op_wait_began_);
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

// --- Stays ------------------------------------------------------------------

void SwapManager::Mover::AddStays(const EnqueuedProgram& program) {
  const size_t begin = stays_.size();
  auto add = [&](StayUse use, int unit, int first, int last, int lead, const ArenaSpan& span) {
    auto stay = std::make_unique<Stay>();
    stay->use = use;
    stay->unit = unit;
    stay->first_op = program.first_op + first;
    stay->last_op = program.first_op + std::min(last, program.num_ops - 1);
    stay->lead_ops = lead;
    stay->version = program.version;
    stay->span = span;
    stays_.push_back(std::move(stay));
  };
  for (const WeightStay& stay : plan_.weight_stays) {
    if (stay.first_op >= program.num_ops) continue;
    add(StayUse::kWeights, stay.unit, stay.first_op, stay.last_op, stay.lead_ops, stay.span);
    stays_.back()->feeds_update = stay.feeds_update && program.kind == Program::kTrain;
    stays_.back()->takes_over = stay.takes_over;
  }
  if (program.kind == Program::kTrain) {
    for (const GradientStay& stay : plan_.gradient_stays) {
      add(StayUse::kSums, stay.unit, stay.first_op, stay.last_op, 0, stay.span);
    }
    for (const ActivationStay& stay : plan_.activation_stays) {
      add(stay.loads ? StayUse::kLoadedInput : StayUse::kSavedInput, stay.unit, stay.op, stay.op,
          stay.lead_ops, stay.span);
    }
    for (size_t i = 0; i < plan_.turn_stays.size(); ++i) {
      const TurnStay& stay = plan_.turn_stays[i];
      add(StayUse::kTurnTiles, plan_.turn_unit, stay.op, stay.op, stay.lead_ops, stay.span);
      stays_.back()->turn_stay = static_cast<int>(i);
    }
  }
  std::stable_sort(stays_.begin() + begin, stays_.end(),
                   [](const auto& a, const auto& b) { return a->first_op < b->first_op; });
}

void SwapManager::Mover::AllocateStays() {
  while (!stays_.empty() && stays_.front()->state == StayState::kReleased) stays_.pop_front();
  for (size_t i = 0; i < stays_.size(); ++i) {
    Stay& stay = *stays_[i];
    if (stay.state == StayState::kWaiting && stay.first_op - stay.lead_ops <= next_op_ &&
        AddressesFree(i) && (stay.use != StayUse::kTurnTiles || CanOpenTurnStay(stay))) {
      const bool fetched = stay.use == StayUse::kWeights || stay.use == StayUse::kLoadedInput;
      stay.state = fetched ? StayState::kAllocated : StayState::kReady;
      if (stay.use == StayUse::kTurnTiles) OpenTurnStay(stay);
      if (OnDevice(stay)) stay.waits = uses_.Over(stay.span);
    }
    if (stay.state == StayState::kAllocated && CanFetch(stay)) StartFetch(stay);
  }
}

// What is in the place of the right version can be fetched; other weights are filled by the
// update that is still to come, or fetched after it.
bool SwapManager::Mover::CanFetch(const Stay& stay) const {
  return (stay.use == StayUse::kWeights ? settled_ : saved_)[stay.unit] == stay.version;
}

// Whether no earlier stay still holds, or is still to hold, any of these addresses.
bool SwapManager::Mover::AddressesFree(size_t index) const {
  const Stay& stay = *stays_[index];
  const ArenaSpan& span = stay.span;
  for (size_t i = 0; i < index; ++i) {
    if (stays_[i]->state == StayState::kReleased) continue;
    const ArenaSpan& other = stays_[i]->span;
    // The update reads the old weights of a tile before it puts the new ones there.
    if (stay.takes_over && stays_[i]->feeds_update && stays_[i]->unit == stay.unit &&
        stays_[i]->version + 1 == stay.version) {
      continue;
    }
    if (span.Overlaps(other)) return false;
  }
  return true;
}

SwapManager::Mover::Stay* SwapManager::Mover::FindStay(StayUse use, int unit, int64_t op) {
  for (auto& stay : stays_) {
    if (stay->use == use && stay->unit == unit && stay->first_op <= op && op <= stay->last_op &&
        !stay->abandoned) {
      return stay.get();
    }
  }
  SPILLWAY_CHECK(false && "an op uses a unit without a stay in memory");
  return nullptr;
}

void SwapManager::Mover::ReleaseStay(Stay& stay) {
  if (OnDevice(stay)) LeaveAddresses(stay);
  stay.state = StayState::kReleased;
  stay.fetches.clear();
}

}  // namespace spillway
