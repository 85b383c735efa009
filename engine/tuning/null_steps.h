// Training steps on a disk that completes at once, which compute nothing: what is left is the
// mover's work, the hand-over to the workers and back, and, unless they are left out, checksums.
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

// Like layers between an embedding and a head that borrows it, in bf16 with AdamW, all on NVMe: 12
// bytes of state a parameter.
PlanRequest LayersRequest(UpdateMode update, int layers, uint64_t layer_parameters,
                          uint64_t tile_parameters);

// One thread computes, as of a run; mover and workers have their own.
class NullSteps {
 public:
  struct Options {
    int workers = 2;
    bool checksums = true;  // without them workers hand a job back at once
  };
  // Since the first state was made.
  struct Work {
    uint64_t steps = 0;
    uint64_t tiles = 0;         // updated
    uint64_t moved_bytes = 0;   // read and written
    double mover_seconds = 0;   // of a processor
    double worker_seconds = 0;  // in jobs, all workers together

    Work Since(const Work& earlier) const;
  };

  static absl::StatusOr<std::unique_ptr<NullSteps>> Create(const PlanRequest& request,
                                                           const Options& options);
  ~NullSteps();

  absl::Status Step();
  // Ends what the last step has left under way.
  absl::Status Flush();
  Work work() const { return Counted().Since(before_); }

 private:
  class Arithmetic;
  class IdleWorkers;
  explicit NullSteps(SwapPlan plan);
  // On the mover's thread; waits until it is done.
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
  std::thread mover_thread_;  // with idle workers; otherwise the mover has one
  std::atomic<bool> stopping_{false};
  UpdateScalars scalars_;
  bool enqueued_ = false;  // the next step
  Work before_;
};

}  // namespace spillway
