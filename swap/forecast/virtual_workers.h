// The workers of a forecast: jobs of the mover's take their time, and nothing is computed.
#pragma once

#include <deque>
#include <vector>

#include "swap/forecast/virtual_machine.h"
#include "swap/mover/executor.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

// Rounding and updates touch memory, and what operations read and leave is checked, at the clock's
// rates, which all workers have together. What updates read is checked at the rate of updates.
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
