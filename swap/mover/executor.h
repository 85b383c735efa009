// The interface to a runner of the swap manager's jobs, in place of threads of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "io/base/span.h"

namespace spillway {

// A worker's work on one tile, or on a piece of an input.
struct WorkerJob {
  SpanKind kind = SpanKind::kCheck;
  int unit = -1;
  int tile = -1;
  int64_t needed_by_op = INT64_MAX;  // jobs of earlier operations go first
  uint64_t checked_bytes = 0;        // bytes of weights or inputs that the job checks
  std::function<void()> work;        // touches only the tile's own memory and records
  std::function<void()> then;        // tells the mover
};

// With an executor a swap manager starts no thread: jobs of its workers and of its
// commit go here, and its mover runs inside the calls of the compute thread. The order
// in which jobs and transfers happen is then the executor's to choose, and can be
// chosen again: tests/sim runs whole trainings so, from a seed, and swap/forecast lets
// them take their time by a clock.
class Executor {
 public:
  virtual ~Executor() = default;
  // Takes a job. Runs it later, not from inside this call, while the manager waits in
  // IoEngine::Poll. One thread.
  virtual void Run(std::function<void()> job) = 0;
  // Lets jobs run until `done`: for callers that wait for a job outside of IoEngine::Poll.
  virtual void RunUntil(const std::function<bool()>& done) = 0;
  // Takes a worker's job, as Run does. An executor that computes nothing leaves `work` out.
  virtual void RunJob(WorkerJob job) {
    Run([job = std::move(job)] {
      job.work();
      job.then();
    });
  }
};

}  // namespace spillway
