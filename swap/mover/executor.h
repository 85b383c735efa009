// Who runs the swap manager's jobs, where that is not threads of its own.
#pragma once

#include <functional>

namespace spillway {

// With an executor a swap manager starts no thread: jobs of its workers and of its
// commit go here, and its mover runs inside the calls of the compute thread. The order
// in which jobs and transfers happen is then the executor's to choose, and can be
// chosen again: tests/sim runs whole trainings so, from a seed.
class Executor {
 public:
  virtual ~Executor() = default;
  // Takes a job. Runs it later, not from inside this call, while the manager waits in
  // IoEngine::Poll. One thread.
  virtual void Run(std::function<void()> job) = 0;
};

}  // namespace spillway
