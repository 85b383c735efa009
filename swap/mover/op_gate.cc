#include "swap/mover/op_gate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "io/base/check.h"
#include "io/base/clock.h"

namespace spillway {
namespace {

int OpsUpToLoss(const StepSchedule& schedule) {
  for (size_t i = 0; i < schedule.ops.size(); ++i) {
    if (schedule.ops[i].kind == OpKind::kLoss) return static_cast<int>(i) + 1;
  }
  return static_cast<int>(schedule.ops.size());
}

// The buffer that an op of a training step uses where its unit's inputs go to the store.
BufferUse InputUse(const StepOp& op) {
  return op.kind == OpKind::kForward ? BufferUse::kSavedInput : BufferUse::kLoadedInput;
}

}  // namespace

OpGate::OpGate(const MoverContext& context, Buffers* buffers, Prefetch* prefetch, Passes* passes)
    : context_(context),
      buffers_(buffers),
      prefetch_(prefetch),
      passes_(passes),
      evaluate_ops_(OpsUpToLoss(context.plan.schedule)) {}

// --- Programs -------------------------------------------------------------------

void OpGate::Enqueue(Program kind, FirstRead first_read) {
  SPILLWAY_CHECK(!gave_up_);
  CheckFirstRead(first_read);
  QueuedProgram program;
  program.kind = kind;
  program.first_op = end_op_;
  program.num_ops =
      kind == Program::kTrain ? static_cast<int>(plan_.schedule.ops.size()) : evaluate_ops_;
  program.version = train_programs_;
  // An earlier program that reads the same version may begin with other tiles.
  const bool reads_it_first = programs_.empty() || programs_.back().version != program.version;
  if (reads_it_first && !context_.lane->separate_device())
    program.first_read = std::move(first_read);
  end_op_ += program.num_ops;
  if (kind == Program::kTrain) ++train_programs_;
  buffers_->Add(program);
  programs_.push_back(program);
}

void OpGate::CheckFirstRead(const FirstRead& read) const {
  if (read.unit < 0) return;
  const std::vector<int>& used = plan_.schedule.ops.front().weights;
  SPILLWAY_CHECK(std::find(used.begin(), used.end(), read.unit) != used.end());
  int next = 0;
  for (const int tile : read.tiles) {
    SPILLWAY_CHECK(tile >= next);  // ascending
    next = tile + 1;
  }
  SPILLWAY_CHECK(next <= context_.layout.NumTiles(read.unit));
}

void OpGate::AbandonQueued() {
  while (!programs_.empty() && programs_.back().first_op >= next_op_) {
    const QueuedProgram& program = programs_.back();
    buffers_->Abandon(program);
    end_op_ = program.first_op;
    if (program.kind == Program::kTrain) --train_programs_;
    programs_.pop_back();
  }
}

// Buffers that the program uses are left as they are: nobody comes after them.
bool OpGate::AbandonRunning() {
  AbandonQueued();
  if (programs_.empty()) return true;
  const int64_t version = programs_.front().version;
  const auto later = [&](int64_t other) { return other > version; };
  const auto& settled = buffers_->settled();
  const bool whole =
      std::none_of(settled.begin(), settled.end(), later) && !passes_->AnyUpdateAfter(version);
  buffers_->AbandonWaiting();
  programs_.clear();
  op_runs_ = false;
  gave_up_ = true;
  return whole;
}

// --- Operations -----------------------------------------------------------------

void OpGate::Request(OpBuffers* buffers, Done done) {
  SPILLWAY_CHECK(!programs_.empty() && next_op_ < end_op_);
  SPILLWAY_CHECK(!waiter_ && !op_runs_);  // one operation at a time
  op_buffers_ = buffers;
  waiter_ = std::move(done);
  wait_began_seconds_ = MonotonicSeconds();
  busy_then_ = BusySoFar();
  passes_->ForgetHeld();
}

bool OpGate::Ready(const StepOp& op, const QueuedProgram& program) const {
  const auto ready = [&](BufferUse use, int unit) {
    return buffers_->Find(use, unit, next_op_).state() == BufferState::kReady;
  };
  for (int unit : op.weights) {
    const bool there = plan_.ReadsHome(unit) ? buffers_->Holds(unit, program.version)
                                             : ready(BufferUse::kWeights, unit);
    if (!there && !FirstReadIsThere(unit, program)) return false;
  }
  if (program.kind == Program::kEvaluate) return true;
  for (int unit : op.gradients) {
    if (!ready(BufferUse::kSums, unit)) return false;
  }
  if (InputTier(op) != Tier::kNvme) return true;
  return ready(InputUse(op), op.unit);
}

// Whether the operation is the program's first, and all that it reads of the unit is there although
// the update goes on.
bool OpGate::FirstReadIsThere(int unit, const QueuedProgram& program) const {
  if (next_op_ != program.first_op || unit != program.first_read.unit) return false;
  if (!passes_->IsThere(program.first_read, program.version)) return false;
  return plan_.ReadsHome(unit) ||
         buffers_->Find(BufferUse::kWeights, unit, next_op_).state() == BufferState::kTakingUpdate;
}

void OpGate::TryGrant() {
  if (!waiter_) return;
  const QueuedProgram& program = programs_.front();
  const int index = static_cast<int>(next_op_ - program.first_op);
  SPILLWAY_CHECK(index >= 0 && index < program.num_ops);
  const StepOp& op = plan_.schedule.ops[index];
  if (!Ready(op, program)) return;

  context_.lane->OpComes(op, WaitedForNow(), wait_began_seconds_);
  OpBuffers& buffers = *op_buffers_;
  buffers.op = &op;
  buffers.index = index;
  for (int unit : op.weights) {
    if (plan_.ReadsHome(unit)) {
      buffers.weights.push_back(context_.Address(plan_.plane_homes[unit][0]));
      continue;
    }
    const Buffer& weights = buffers_->Find(BufferUse::kWeights, unit, next_op_);
    context_.lane->OpWaitsFor(weights.filled);
    buffers.weights.push_back(context_.Address(weights.span));
  }
  if (program.kind == Program::kTrain) {
    for (int unit : op.gradients) {
      Buffer& sums = buffers_->Find(BufferUse::kSums, unit, next_op_);
      buffers_->WaitForAddresses(sums, context_.lane->ops_stream());
      buffers.gradients.push_back(context_.Address(sums.span));
      buffers.rounded.push_back(plan_.rounded_sums[unit]);
      buffers.fresh.push_back(sums.first_op == next_op_);
    }
    PointAtInputs(op, buffers);
    if (op.kind == OpKind::kLoss) passes_->BeginGradients(program.version);
  }
  context_.lane->OpBegins();
  ++next_op_;
  op_runs_ = true;
  context_.thread->NoteProgress();
  std::exchange(waiter_, nullptr)(absl::OkStatus());
}

// Where the inputs are that the op is given; the device: it is given none.
Tier OpGate::InputTier(const StepOp& op) const {
  const bool has = op.kind != OpKind::kLoss && op.inputs_for_ops > 0;
  return has ? plan_.activations[op.unit] : Tier::kDevice;
}

void OpGate::PointAtInputs(const StepOp& op, OpBuffers& buffers) {
  const Tier tier = InputTier(op);
  if (tier == Tier::kDevice) return;
  const ArenaSpan& span = tier == Tier::kHost
                              ? plan_.activation_homes[op.unit]
                              : buffers_->Find(InputUse(op), op.unit, next_op_).span;
  buffers.inputs = context_.Address(span);
  buffers.inputs_bytes = span.bytes;
  context_.lane->CountInputs(op.kind, span.bytes);
}

BusyMeanwhile OpGate::BusySoFar() const {
  const DeviceSeconds seconds = context_.lane->seconds();
  BusyMeanwhile busy;
  busy.disk = context_.engine->stats().busy_seconds;
  busy.workers = context_.workers->busy_seconds() / context_.workers->threads();
  busy.device_update = seconds.updating;
  busy.copy = seconds.copying;
  return busy;
}

// The resource that was busy for most of the wait so far.
SpanKind OpGate::WaitedForNow() const {
  if (passes_->held()) return SpanKind::kWaitCommit;
  BusyMeanwhile busy = BusySoFar();
  busy.disk -= busy_then_.disk;
  busy.workers -= busy_then_.workers;
  busy.device_update -= busy_then_.device_update;
  busy.copy -= busy_then_.copy;
  return WaitedFor(MonotonicSeconds() - wait_began_seconds_, busy);
}

void OpGate::Finish() {
  SPILLWAY_CHECK(!programs_.empty() && op_runs_);
  op_runs_ = false;
  const QueuedProgram program = programs_.front();
  const int64_t op = next_op_ - 1;
  context_.lane->OpEnds();
  if (context_.lane->separate_device()) NoteLastUses(op);
  std::vector<Buffer*> complete;  // gradient sums that no later op adds to
  for (const auto& buffer : buffers_->near()) {
    // Those of a program that was abandoned while they were being filled have the numbers of
    // ops that others have now, and stand before them.
    if (buffer->abandoned) continue;
    if (buffer->first_op > op) break;
    if (buffer->state() == BufferState::kReleased || buffer->last_op != op) continue;
    // The op may still use the host's memory: NoteLastUses sees to it.
    if (context_.lane->separate_device() && !buffers_->OnDevice(*buffer)) continue;
    if (buffer->use == BufferUse::kSums) {
      complete.push_back(buffer.get());
    } else {
      EndUse(*buffer);
    }
  }
  for (Buffer* sums : complete) passes_->TakeGradient(*sums, op);
  if (op + 1 < program.first_op + program.num_ops) return;
  // Where the norm of all gradients is awaited, Announce starts them.
  if (program.kind == Program::kTrain && plan_.schedule.update == UpdateMode::kImmediate) {
    passes_->UpdateDeferred(program.version + 1);
  }
  programs_.pop_front();
}

// No operation uses the buffer any more.
void OpGate::EndUse(Buffer& buffer) {
  if (buffer.use == BufferUse::kSavedInput) {
    prefetch_->Save(buffer);
  } else if (!buffer.feeds_update && buffer.use != BufferUse::kTurnTiles) {
    buffers_->Release(buffer);
  }
}

// The op has been put into the separate device's stream. What it uses of the host's memory is its
// own until it is done: inputs.
void OpGate::NoteLastUses(int64_t op) {
  std::vector<Buffer*> inputs;
  for (const auto& buffer : buffers_->near()) {
    if (buffer->abandoned || buffer->state() == BufferState::kReleased || buffer->last_op != op) {
      continue;
    }
    if (buffers_->OnDevice(*buffer)) {
      buffer->last_use = context_.lane->op_done();
    } else {
      inputs.push_back(buffer.get());
    }
  }
  context_.lane->WhenDone(context_.lane->ops_stream(), [this, inputs](const absl::Status& status) {
    if (context_.thread->failed() || !status.ok()) return;
    for (Buffer* input : inputs) EndUse(*input);
  });
}

void OpGate::FailWaiter(const absl::Status& status) {
  if (waiter_) std::exchange(waiter_, nullptr)(status);
}

}  // namespace spillway
