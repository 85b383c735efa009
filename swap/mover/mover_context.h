// The objects that all parts of the mover use and none of them owns.
#pragma once

#include <utility>

#include "io/base/check.h"
#include "io/base/trace.h"
#include "io/io_engine.h"
#include "swap/device/arena.h"
#include "swap/device/tile_compute.h"
#include "swap/mover/device_lane.h"
#include "swap/mover/executor.h"
#include "swap/mover/mover_record.h"
#include "swap/mover/mover_thread.h"
#include "swap/mover/worker_pool.h"
#include "swap/plan/swap_plan.h"
#include "swap/store/swap_store.h"

namespace spillway {

// Belongs to the mover (swap/mover/mover.h) and does not change during the mover's life.
struct MoverContext {
  const SwapPlan& plan;
  const StateLayout& layout;  // the plan's
  SwapStore* store;           // null where the plan places nothing there
  Arena* arenas[2];           // by tier: device, host
  TileCompute* compute;
  IoEngine* engine;
  MoverThread* thread;
  WorkerPool* workers;
  Executor* executor;  // may be null
  DeviceLane* lane;
  MoverRecord* record;
  Trace* trace;  // may be null

  void RunOnWorker(WorkerJob job) const {
    if (executor != nullptr) return executor->RunJob(std::move(job));
    const int64_t needed_by_op = job.needed_by_op;
    workers->RunFirst(needed_by_op, [trace = trace, job = std::move(job)] {
      {
        const TraceSpan span(trace, job.kind, job.unit, job.tile);
        job.work();
      }
      job.then();
    });
  }
  char* Address(const ArenaSpan& span) const {
    SPILLWAY_CHECK(span.tier != Tier::kNvme);
    return arenas[static_cast<int>(span.tier)]->data() + span.offset;
  }
  // Where a plane of a tile lives in memory. REQUIRES: it does.
  char* PlaneHome(int unit, int tile, int plane) const {
    SPILLWAY_CHECK(plan.placements[unit].PlaneTier(plane) != Tier::kNvme);
    return Address(plan.plane_homes[unit][plane]) + layout.PlaneBegin(tile, plane);
  }
  // How far into a unit's flat weights a tile begins.
  uint64_t WeightOffset(int tile) const { return layout.PlaneBegin(tile, 0); }
  bool GradientInStore(int unit) const {
    return plan.deferred[unit] && plan.placements[unit].gradient == Tier::kNvme;
  }
};

}  // namespace spillway
