// Provides the memory of weights and gradient sums to a step's operations: the swap manager of a
// whole state (below), or that of a shard together with the other ranks
// (engine/ranks/sharded_step.h). The methods are SwapManager's, with the same rules.
#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

class StepMemory {
 public:
  virtual ~StepMemory() = default;

  // The operations of a training step, on whole units.
  virtual const StepSchedule& schedule() const = 0;

  // With several ranks `first_read` is ignored: each rank's tokens are its own.
  virtual void Enqueue(Program program, FirstRead first_read = {}) = 0;
  virtual void AbandonQueued() = 0;
  virtual absl::StatusOr<OpBuffers> BeginOp() = 0;
  virtual void EndOp() = 0;
  virtual absl::StatusOr<GradientTotal> AwaitGradients() = 0;
  virtual absl::Status MeasureUpdate(const UpdateScalars& scalars, int measure) = 0;
  virtual void AnnounceUpdate(const UpdateScalars& scalars) = 0;
  virtual absl::Status Flush() = 0;
  // After the last EndOp of a program: waits until only updates remain of it.
  virtual absl::Status AwaitProgram() = 0;
};

class LocalStep : public StepMemory {
 public:
  // `manager` outlives the object.
  explicit LocalStep(SwapManager* manager) : manager_(manager) {}

  const StepSchedule& schedule() const override { return manager_->plan().schedule; }
  void Enqueue(Program program, FirstRead first_read = {}) override {
    manager_->Enqueue(program, std::move(first_read));
  }
  void AbandonQueued() override { manager_->AbandonQueued(); }
  absl::StatusOr<OpBuffers> BeginOp() override { return manager_->BeginOp(); }
  void EndOp() override { manager_->EndOp(); }
  absl::StatusOr<GradientTotal> AwaitGradients() override { return manager_->AwaitGradients(); }
  absl::Status MeasureUpdate(const UpdateScalars& scalars, int measure) override {
    return manager_->MeasureUpdate(scalars, measure);
  }
  void AnnounceUpdate(const UpdateScalars& scalars) override { manager_->AnnounceUpdate(scalars); }
  absl::Status Flush() override { return manager_->Flush(); }
  absl::Status AwaitProgram() override { return absl::OkStatus(); }

 private:
  SwapManager* const manager_;
};

}  // namespace spillway
