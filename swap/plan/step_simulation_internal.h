// The state of a simulation (swap/plan/step_simulation.h): what is where, what waits for what, and
// how much of the disk, the workers and the link each has.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "swap/plan/step_simulation.h"

namespace spillway {

// Seconds that something takes of each resource, were it alone there; or parts of each, in [0, 1].
struct Shares {
  double disk = 0;
  double workers = 0;
  double to_device = 0;
  double to_host = 0;  // with what a separate device computes in that stream
};

class Simulation {
 public:
  // Both outlive it.
  Simulation(const SwapPlan& plan, const StepClock& clock);

  SimulatedStep Run();

 private:
  static constexpr int kSteps = 3;  // the last one counts

  enum class State { kWaiting, kAllocated, kFilling, kReady, kReleased };
  enum class Use { kWeights, kSums, kSavedInput, kLoadedInput };
  struct Stay {
    Use use = Use::kWeights;
    bool fetched() const { return use == Use::kWeights || use == Use::kLoadedInput; }
    bool feeds_update = false;
    bool takes_over = false;
    int unit = 0;
    int version = 0;
    int first_op = 0, last_op = 0, lead_ops = 0;  // in the line of all steps' ops
    ArenaSpan span;
    State state = State::kWaiting;
    Shares needs;                 // of the fetch
    double left = 1;              // of the whole
    std::vector<Stay*> overlaps;  // earlier ones at the same addresses
  };
  struct Pass {
    bool round = false;     // or the writing of an input
    bool streamed = false;  // through a separate device
    int unit = 0;
    int version = 0;
    Stay* sums = nullptr;
    Stay* weights = nullptr;
    Stay* destination = nullptr;
    Shares needs;
    double left = 1;  // of the whole
    bool begun = false;
  };

  double GradientBytes(int unit) const {
    return static_cast<double>(plan_.layout.PaddedParameters(unit) *
                               plan_.layout.gradient_bytes_per_parameter());
  }
  double ToDevice(uint64_t bytes) const {
    return clock_.link.SecondsToDevice(static_cast<double>(bytes));
  }
  double ToHost(uint64_t bytes) const {
    return clock_.link.SecondsToHost(static_cast<double>(bytes));
  }
  double OnDevice(uint64_t touched) const {
    return SecondsAt(clock_.device_update_bytes_per_second, static_cast<double>(touched));
  }
  double OnWorkers(uint64_t touched) const {
    return SecondsAt(clock_.update_bytes_per_second, static_cast<double>(touched));
  }
  // Rounding a complete gradient, and bringing it to the host's memory.
  void AddRounding(int unit, Shares& needs) const;
  void BeginOp();
  // With several ranks: that operation's collective may begin, and so may the next computation.
  bool MayExchange(int op) const;
  bool MayCompute() const;
  void BeginComputation();
  int computations() const { return static_cast<int>(clock_.collective->computations.size()); }
  // Of all steps, that are at an end: operations of the schedule, and what computes, which are the
  // same with one rank.
  int OpsBehind() const {
    return next_op_ - ((clock_.collective ? exchanging_ : computing_) ? 1 : 0);
  }
  int ComputedBehind() const {
    return clock_.collective ? next_computation_ - (computing_ ? 1 : 0) : OpsBehind();
  }
  int ops() const { return static_cast<int>(plan_.schedule.ops.size()); }
  const StepOp& Op(int op) const { return plan_.schedule.ops[op % ops()]; }
  void AddStays(int step);
  bool Free(const Stay& stay) const;
  bool Ready(int op) const;
  Stay* Find(Use use, int unit, int op) const;
  bool CanFetch(const Stay& stay) const;
  void Pump();
  void FinishOp(int op);
  void AddUpdate(int unit, int version, Stay* sums);
  bool CanRun(Pass& pass);
  // The first of its kind, if it can go on.
  Pass* NextUpdate(bool streamed);
  void EndPass(Pass& pass);
  // The stay that is filled next, of those in the store or of those in the host's memory.
  Stay* NextFetch(bool from_store) const;
  // Lets time pass until something ends.
  void Advance();

  const SwapPlan& plan_;
  const StepClock& clock_;
  std::vector<std::unique_ptr<Stay>> stays_;
  std::vector<int> settled_;  // [unit] version in its place
  std::deque<Pass> passes_;   // updates, in order
  std::deque<Pass> rounds_;
  int next_op_ = 0;          // not yet begun
  double compute_left_ = 0;  // of the op, or the computation, that runs
  Shares input_;             // what it copies of its unit's inputs, before it computes
  double input_left_ = 0;    // of the whole
  bool computing_ = false;
  // With several ranks.
  int next_computation_ = 0;
  bool exchanging_ = false;  // an operation of the schedule runs
  double exchange_left_ = 0;
  double now_ = 0, disk_busy_ = 0, copy_busy_ = 0, exchange_busy_ = 0, stalled_ = 0;
};

}  // namespace spillway
