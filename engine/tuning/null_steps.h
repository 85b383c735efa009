// Training steps without computation, on a disk that completes at once. The rest is the mover's
// work, the hand-over to the workers and back, and, unless switched off, checksums.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "engine/tuning/null_disk.h"
#include "swap/device/arena.h"
#include "swap/device/memory_budget.h"
#include "swap/mover/mover.h"
#include "swap/plan/plan_request.h"
#include "swap/store/swap_store.h"

namespace spillway {

// A request that resembles layers between an embedding and a tied head, in bf16 with AdamW, all on
// NVMe: 12 bytes of state a parameter.
PlanRequest LayersRequest(UpdateMode update, int layers, uint64_t layer_parameters,
                          uint64_t tile_parameters);

// One thread computes, as in a run; mover and workers have their own.
class NullSteps {
 public:
  struct Options {
    int workers = 2;
    bool checksums = true;  // if false, workers complete a job at once
  };
  // Counters since the first state was made.
  struct Work {
    uint64_t steps = 0;
    uint64_t tiles = 0;         // updated tiles
    uint64_t moved_bytes = 0;   // read and written
    double mover_seconds = 0;   // processor seconds
    double worker_seconds = 0;  // in jobs, of all workers together

    Work Since(const Work& earlier) const;
  };

  static absl::StatusOr<std::unique_ptr<NullSteps>> Create(const PlanRequest& request,
                                                           const Options& options);
  ~NullSteps();

  absl::Status Step();
  // Completes what the last step has left under way.
  absl::Status Flush();
  Work work() const { return Counted().Since(before_); }

 private:
  class Arithmetic;
  class IdleWorkers;
  explicit NullSteps(SwapPlan plan);
  // Runs `task` on the mover's thread and waits for it.
  absl::Status Call(const std::function<void(MoverThread::Done)>& task);
  Work Counted() const;

  const SwapPlan plan_;
  NullDisk disk_;
  std::unique_ptr<SwapStore> store_;
  MemoryBudget budget_;
  std::unique_ptr<Arena> host_, device_;
  std::unique_ptr<Arithmetic> arithmetic_;
  std::unique_ptr<IdleWorkers> idle_workers_;  // null with checksums
  std::unique_ptr<Mover> mover_;
  std::thread mover_thread_;  // if workers are idle; otherwise the mover has a thread
  std::atomic<bool> stopping_{false};
  UpdateScalars scalars_;
  bool enqueued_ = false;  // the next step is enqueued
  Work before_;
};

}  // namespace spillway
