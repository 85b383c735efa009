#include "engine/ranks/sharded_step.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/cuda/kernels.h"
#include "engine/cuda/launch_status.h"
#include "io/base/check.h"
#include "io/base/clock.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Number of operations, or actions, of a program: an evaluation ends with the loss.
template <typename Element, typename Kind>
int CountOf(Program program, const std::vector<Element>& all, Kind loss) {
  if (program == Program::kTrain) return static_cast<int>(all.size());
  const auto is_loss = [loss](const Element& one) { return one.kind == loss; };
  return static_cast<int>(std::find_if(all.begin(), all.end(), is_loss) - all.begin()) + 1;
}

uint64_t RoundUpToPage(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

ShardedStep::ShardedStep(Options options, SwapManager* manager, const RankGroups& ranks,
                         TileCompute* tiles, const ExchangeStream& stream, char* memory)
    : options_(std::move(options)),
      manager_(manager),
      ranks_(ranks),
      traffic_(TrafficByAction(options_.schedule, options_.sums)),
      stream_(stream),
      memory_(memory),
      sums_(options_.sums, ranks.group, ranks.replicas, tiles, stream,
            memory + RoundUpToPage(options_.schedule.whole_bytes)),
      inputs_(options_.unit_parameters.size()) {
  thread_ = std::thread([this] { RunActions(); });
}

ShardedStep::~ShardedStep() {
  bool busy;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    busy = running_;
    changed_.NotifyAll();
  }
  if (busy) {
    if (ranks_.group != nullptr) ranks_.group->Abort();
    if (ranks_.replicas != nullptr) ranks_.replicas->Abort();
  }
  thread_.join();
  MutexLock lock(mutex_);
  while (computing_ > 0) changed_.Wait(mutex_);
}

uint64_t ShardedStep::MemoryBytes(const Options& options) {
  return RoundUpToPage(options.schedule.whole_bytes) + GradientSums::MemoryBytes(options.sums);
}

// --- The compute thread ---------------------------------------------------------

void ShardedStep::Enqueue(Program program, FirstRead) {
  manager_->Enqueue(program);
  MutexLock lock(mutex_);
  queued_.push_back(program);
}

void ShardedStep::AbandonQueued() {
  {
    MutexLock lock(mutex_);
    SPILLWAY_CHECK(idle());
    queued_.clear();
  }
  manager_->AbandonQueued();
}

absl::StatusOr<OpBuffers> ShardedStep::BeginOp() {
  const ShardedSchedule& schedule = options_.schedule;
  const double began = MonotonicSeconds();
  bool training;
  double swapping;
  UnitInputs inputs;
  {
    MutexLock lock(mutex_);
    const double swap_before = swap_seconds_;
    if (next_op_ == 0) {
      while (failure_.ok() && !idle()) changed_.Wait(mutex_);
      RETURN_IF_ERROR(failure_);
      SPILLWAY_CHECK(!queued_.empty());
      program_ = queued_.front();
      queued_.pop_front();
      ops_done_ = actions_done_ = 0;
      running_ = true;
      changed_.NotifyAll();
    }
    training = program_ == Program::kTrain;
    while (failure_.ok() && actions_done_ < schedule.needs_actions[next_op_]) changed_.Wait(mutex_);
    RETURN_IF_ERROR(failure_);
    swapping = swap_seconds_ - swap_before;
    inputs = inputs_[schedule.compute.ops[next_op_].unit];
    if (stream_.device() == nullptr) CountWait(&schedule.compute.ops[next_op_], began, swapping);
  }
  if (stream_.device() != nullptr) NoteBegin(schedule.compute.ops[next_op_], began, swapping);
  OpBuffers buffers;
  buffers.op = &schedule.compute.ops[next_op_];
  buffers.index = next_op_;
  for (int unit : buffers.op->weights) {
    buffers.weights.push_back(memory_ + schedule.WeightsAt(unit, next_op_).offset);
  }
  if (!training) return buffers;
  if (buffers.op->kind != OpKind::kLoss) {
    buffers.inputs = inputs.data;
    buffers.inputs_bytes = inputs.bytes;
  }
  for (int unit : buffers.op->gradients) {
    const WholeStay& stay = schedule.SumsAt(unit, next_op_);
    buffers.gradients.push_back(memory_ + stay.offset);
    buffers.fresh.push_back(stay.first_op == next_op_);
  }
  return buffers;
}

void ShardedStep::CountWait(const StepOp* op, double began, double swapping) {
  const double now = MonotonicSeconds();
  const double waited = std::max(0.0, now - began);
  swapping = std::min(waited, swapping);
  stats_.stall_swap_seconds += swapping;
  stats_.stall_collective_seconds += waited - swapping;
  const auto detail = [op](Span& span) {
    if (op == nullptr) return;
    span.detail = static_cast<uint8_t>(SpanKindOf(op->kind));
    span.unit = op->unit;
  };
  RecordSpan(SpanKind::kWaitDisk, detail, began, began + swapping);
  RecordSpan(SpanKind::kWaitCollective, detail, began + swapping, now);
}

void ShardedStep::RecordSpan(SpanKind kind, const std::function<void(Span&)>& detail, double began,
                             double ended) const {
  if (!IsOn(options_.trace) || ended <= began) return;
  Span span;
  span.kind = kind;
  detail(span);
  span.begin_ns = static_cast<int64_t>(began * 1e9);
  span.end_ns = static_cast<int64_t>(ended * 1e9);
  options_.trace->Record(span);
}

void ShardedStep::NoteBegin(const StepOp& op, double wait_began, double swapping) {
  Device& device = *stream_.device();
  device.BeginComputing(StreamId::kCompute);
  device.Notify(StreamId::kCompute, [this, &op, wait_began, swapping](const absl::Status&) {
    MutexLock lock(mutex_);
    // Nobody waited while the operation before this one computed.
    CountWait(&op, std::max(wait_began, op_ended_), swapping);
    op_began_ = MonotonicSeconds();
  });
}

void ShardedStep::NoteEnd(const StepOp& op, int index) {
  stream_.device()->Notify(StreamId::kCompute, [this, &op, index](const absl::Status& status) {
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = status;
    op_ended_ = MonotonicSeconds();
    stats_.compute_busy_seconds += op_ended_ - op_began_;
    RecordSpan(
        SpanKindOf(op.kind), [&op](Span& span) { span.unit = op.unit; }, op_began_, op_ended_);
    --computing_;
    ops_done_ = index + 1;
    changed_.NotifyAll();
  });
}

void ShardedStep::EndOp() {
  const int op = next_op_++;
  {
    MutexLock lock(mutex_);
    if (next_op_ == CountOf(program_, options_.schedule.compute.ops, OpKind::kLoss)) next_op_ = 0;
    if (stream_.device() == nullptr) {
      ops_done_ = op + 1;
      changed_.NotifyAll();
      return;
    }
    ++computing_;
  }
  NoteEnd(options_.schedule.compute.ops[op], op);
}

absl::Status ShardedStep::AwaitProgram() {
  MutexLock lock(mutex_);
  while (failure_.ok() && !idle()) changed_.Wait(mutex_);
  return failure_;
}

absl::StatusOr<GradientTotal> ShardedStep::AwaitGradients() {
  RETURN_IF_ERROR(AwaitProgram());
  ASSIGN_OR_RETURN(GradientTotal own, manager_->AwaitGradients());
  if (ranks_.world == nullptr) return own;
  if (ranks_.replicas != nullptr) {
    const GradientPartial portions = sums_.TakePortions();
    own = {portions.sum_of_squares, portions.finite};
  }
  // Added in the order of the portions in a unit, which is that of the ranks if there is one group,
  // or one rank a group.
  BeginExchange();
  ASSIGN_OR_RETURN(const std::vector<double> squares,
                   AllGatherNumber(*ranks_.world, own.sum_of_squares));
  ASSIGN_OR_RETURN(const std::vector<int64_t> finite, AllGatherCount(*ranks_.world, own.finite));
  GradientTotal total;
  for (int rank = 0; rank < ranks_.world->size(); ++rank) {
    total.sum_of_squares += squares[rank];
    total.finite &= finite[rank] != 0;
  }
  EndExchange();
  return total;
}

void ShardedStep::AnnounceUpdate(const UpdateScalars& scalars) {
  // With immediate updates the last sums of the previous step may still be on their way to the
  // manager, and must not get these scalars. An error shows at the next operation.
  {
    const double began = MonotonicSeconds();
    MutexLock lock(mutex_);
    const double swap_before = swap_seconds_;
    while (failure_.ok() && running_) changed_.Wait(mutex_);
    CountWait(nullptr, began, swap_seconds_ - swap_before);
  }
  manager_->AnnounceUpdate(scalars);
}

absl::Status ShardedStep::Flush() {
  RETURN_IF_ERROR(AwaitProgram());
  return manager_->Flush();
}

void ShardedStep::BeginExchange() {
  MutexLock lock(mutex_);
  if (exchanges_++ == 0) exchanging_since_ = MonotonicSeconds();
}

void ShardedStep::EndExchange() {
  MutexLock lock(mutex_);
  if (--exchanges_ == 0) stats_.busy_seconds += MonotonicSeconds() - exchanging_since_;
}

ShardedStats ShardedStep::stats() const {
  MutexLock lock(mutex_);
  ShardedStats stats = stats_;
  if (exchanges_ > 0) stats.busy_seconds += MonotonicSeconds() - exchanging_since_;
  for (const Collectives* ranks : {ranks_.world, ranks_.group, ranks_.replicas}) {
    if (ranks != nullptr) stats.sent_bytes += ranks->sent_bytes();
  }
  return stats;
}

// --- The actions' thread ----------------------------------------------------------

void ShardedStep::RunActions() {
  while (true) {
    int count;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && !(running_ && failure_.ok())) changed_.Wait(mutex_);
      if (stopping_) return;
      count = CountOf(program_, options_.schedule.actions, ShardAction::Kind::kLoss);
    }
    for (int i = 0; i < count; ++i) {
      if (!AwaitAction(options_.schedule.actions[i])) return;
      const absl::Status status = Take(i);
      MutexLock lock(mutex_);
      if (failure_.ok()) failure_ = status;
      actions_done_ = i + 1;
      if (i + 1 == count) running_ = false;
      changed_.NotifyAll();
      if (!failure_.ok()) return;
    }
  }
}

bool ShardedStep::AwaitAction(const ShardAction& action) {
  MutexLock lock(mutex_);
  while (!stopping_ && ops_done_ < action.after_ops) changed_.Wait(mutex_);
  return !stopping_;
}

absl::Status ShardedStep::Take(int index) {
  const ShardAction& action = options_.schedule.actions[index];
  const double began = MonotonicSeconds();
  ASSIGN_OR_RETURN(const OpBuffers shard, manager_->BeginOp());
  RETURN_IF_ERROR(stream_.Await());
  {
    MutexLock lock(mutex_);
    swap_seconds_ += MonotonicSeconds() - began;
    changed_.NotifyAll();
  }
  Span span;
  span.begin_ns = Trace::Now();
  BeginExchange();
  RETURN_IF_ERROR(Exchange(action, shard));
  EndExchange();
  if (IsOn(options_.trace) && action.stay >= 0) {
    span.kind = action.kind == ShardAction::Kind::kSum ? SpanKind::kSum : SpanKind::kGather;
    span.unit = action.unit;
    span.thread = Trace::ThisThread();
    span.end_ns = Trace::Now();
    span.bytes = traffic_[index].bytes;
    options_.trace->Record(span);
  }
  manager_->EndOp();
  return absl::OkStatus();
}

absl::Status ShardedStep::Exchange(const ShardAction& action, const OpBuffers& shard) {
  switch (action.kind) {
    case ShardAction::Kind::kGather:
      return Gather(action, shard);
    case ShardAction::Kind::kSum: {
      const WholeStay& stay = options_.schedule.sums[action.stay];
      auto* sums = reinterpret_cast<float*>(memory_ + stay.offset);
      // The compute thread's sums have less padding than this grid.
      float* const end = sums + options_.unit_parameters[action.unit];
      const uint64_t padding = memory_ + stay.offset + stay.bytes - reinterpret_cast<char*>(end);
      RETURN_IF_ERROR(stream_.Do([&](void* native_stream) -> absl::Status {
        if (padding == 0) return absl::OkStatus();
        if (native_stream != nullptr) {
          return LaunchStatus("padding", LaunchZero(native_stream, end, padding));
        }
        std::memset(end, 0, padding);
        return absl::OkStatus();
      }));
      return sums_.Sum(action.unit, sums, options_.shard_parameters[action.unit],
                       reinterpret_cast<float*>(shard.gradients[0]));
    }
    case ShardAction::Kind::kInputs: {
      MutexLock lock(mutex_);
      inputs_[action.unit] = {shard.inputs, shard.inputs_bytes};
      break;
    }
    case ShardAction::Kind::kLoss:
      break;
  }
  return absl::OkStatus();
}

absl::Status ShardedStep::Gather(const ShardAction& action, const OpBuffers& shard) {
  char* const whole = memory_ + options_.schedule.weights[action.stay].offset;
  const uint64_t bytes = options_.shard_parameters[action.unit] * options_.weight_bytes;
  if (ranks_.group == nullptr) return stream_.Copy(whole, shard.weights[0], bytes);
  return AllGather(*ranks_.group, shard.weights[0], whole, bytes);
}

}  // namespace spillway
