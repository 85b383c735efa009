// The gate at which operations are granted: it has the line of programs and the next operation,
// waits for that operation's weights and inputs, and at its end releases buffers and starts
// updates.
#pragma once

#include <deque>

#include "swap/mover/buffers.h"
#include "swap/mover/mover_context.h"
#include "swap/mover/passes.h"
#include "swap/mover/prefetch.h"
#include "swap/mover/waited_for.h"

namespace spillway {

// The mover's thread. One operation is asked for, granted and ended at a time.
class OpGate {
 public:
  using Done = MoverThread::Done;
  OpGate(const MoverContext& context, Buffers* buffers, Prefetch* prefetch, Passes* passes);

  // --- Programs: SwapManager's methods of the same names.
  void Enqueue(Program kind, FirstRead first_read = {});
  void AbandonQueued();
  // Gives up all programs. Whether the state is that of the training program before the one that
  // runs. REQUIRES: no program is enqueued afterwards.
  bool AbandonRunning();
  // The program whose operations run, or come next; null: none.
  const QueuedProgram* running() const { return programs_.empty() ? nullptr : &programs_.front(); }
  // The number of the next operation to be granted.
  int64_t next_op() const { return next_op_; }
  // No program's operations are under way: none is enqueued, or the next has not begun.
  bool between_programs() const {
    return !op_runs_ && (programs_.empty() || programs_.front().first_op == next_op_);
  }

  // --- Operations.
  // Asks for the next one. REQUIRES: a program is enqueued, and the operation before has ended.
  void Request(OpBuffers* buffers, Done done);
  // Grants the operation that is asked for, if all that it uses is there.
  void TryGrant();
  // The operation that was granted last has been computed, or put into its stream: releases its
  // buffers, and starts passes over the gradients that it has completed.
  void Finish();
  void FailWaiter(const absl::Status& status);

 private:
  void CheckFirstRead(const FirstRead& read) const;
  bool Ready(const StepOp& op, const QueuedProgram& program) const;
  bool FirstReadIsThere(int unit, const QueuedProgram& program) const;
  Tier InputTier(const StepOp& op) const;
  void PointAtInputs(const StepOp& op, OpBuffers& buffers);
  BusyMeanwhile BusySoFar() const;
  SpanKind WaitedForNow() const;
  void EndUse(Buffer& buffer);
  void NoteLastUses(int64_t op);

  const MoverContext& context_;
  const SwapPlan& plan_ = context_.plan;
  Buffers* const buffers_;
  Prefetch* const prefetch_;
  Passes* const passes_;
  const int evaluate_ops_;              // operations up to and with the loss
  std::deque<QueuedProgram> programs_;  // front: the one whose ops run
  int64_t next_op_ = 0;
  int64_t end_op_ = 0;          // after the last op enqueued
  int64_t train_programs_ = 0;  // enqueued so far
  bool op_runs_ = false;        // the operation that was granted last has not ended
  bool gave_up_ = false;        // AbandonRunning: no program comes any more

  Done waiter_;
  OpBuffers* op_buffers_ = nullptr;
  double wait_began_seconds_ = 0;
  BusyMeanwhile busy_then_;  // when the wait began
};

}  // namespace spillway
