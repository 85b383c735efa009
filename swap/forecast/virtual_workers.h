// The workers of a forecast: the mover's jobs take simulated time, and nothing is computed.
#pragma once

#include <deque>
#include <vector>

#include "swap/forecast/virtual_machine.h"
#include "swap/mover/executor.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// Rounding and updates pass over memory at the clock's update rate, and checks of weights and
// inputs at its check rate; all workers share each rate. The check of what an update reads is part
// of the update.
class VirtualWorkers final : public Executor {
 public:
  // All outlive it.
  VirtualWorkers(const SwapPlan& plan, const StepClock& clock, VirtualMachine* machine);

  void Run(std::function<void()> job) override;
  void RunJob(WorkerJob job) override;
  void RunUntil(const std::function<bool()>& done) override;

 private:
  struct Timed {
    double seconds;
    std::function<void()> then;
  };
  double SecondsOf(const WorkerJob& job) const;
  void GoOn(int line);

  const SwapPlan& plan_;
  const StepClock& clock_;
  VirtualMachine* const machine_;
  std::vector<double> round_, update_, measure_;  // [unit] seconds of one worker for a parameter
  std::deque<Timed> waiting_;
};

}  // namespace spillway
