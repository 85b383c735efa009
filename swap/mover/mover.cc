#include "swap/mover/mover.h"

#include <utility>

namespace spillway {

Mover::Mover(const SwapPlan& plan, SwapStore* store, Arena* host_arena, Arena* device_arena,
             TileCompute* compute, const SwapManagerOptions& options,
             std::unique_ptr<IoEngine> engine, std::unique_ptr<Arena> in_place)
    : engine_(std::move(engine)),
      workers_(options.workers, options.executor),
      thread_(engine_.get()),
      lane_(DeviceLane::Create(options.device, options.ops_stream, &thread_, &record_,
                               options.io.trace)),
      context_{.plan = plan,
               .layout = plan.layout,
               .store = store,
               .arenas = {device_arena, host_arena},
               .compute = compute,
               .engine = engine_.get(),
               .thread = &thread_,
               .workers = &workers_,
               .executor = options.executor,
               .lane = lane_.get(),
               .record = &record_,
               .trace = options.io.trace},
      buffers_(context_),
      in_place_(plan.layout, engine_.get(), std::move(in_place)),
      prefetch_(context_, &buffers_, &in_place_),
      tile_buffers_(context_, &buffers_),
      device_tiles_(context_, &buffers_),
      passes_(context_, &buffers_, &tile_buffers_, &device_tiles_),
      committer_(context_, &passes_, options.executor),
      gate_(context_, &buffers_, &prefetch_, &passes_),
      rest_(context_, &tile_buffers_, &device_tiles_, &in_place_) {
  thread_.Start([this] { return RunOnce(); }, /*threaded=*/options.executor == nullptr);
}

Mover::~Mover() {
  thread_.Stop();
  // An operation that was begun and not ended may still use the arenas, and its completion is
  // reported to this object.
  lane_->Synchronize().IgnoreError();
}

bool Mover::RunOnce() {
  const bool goes_on = thread_.RunPosted();
  if (AtRest()) {
    if (!goes_on) return false;
    if (thread_.failed()) {
      const absl::Status error = thread_.error();
      gate_.FailWaiter(error);
      passes_.FailWaiters(error);
      committer_.FailWaiter(error);
    }
  }
  Pump();
  // Wake ends this when something is posted.
  engine_->Poll(absl::Seconds(1));
  return true;
}

// Nothing is under way that uses memory, or has something to tell.
bool Mover::AtRest() const {
  return passes_.at_rest() && !prefetch_.busy() && engine_->pending() == 0 && committer_.at_rest();
}

// One thing that happens here may be what another waits for.
void Mover::Pump() {
  thread_.TakeProgress();
  do {
    if (thread_.failed()) return;
    buffers_.Allocate(gate_.next_op(), [this](Buffer& buffer) { tile_buffers_.OpenTurn(buffer); });
    prefetch_.Start(gate_.next_op());
    if (gate_.running() != nullptr) tile_buffers_.ReadAhead(*gate_.running());
    committer_.Advance();
    passes_.Start();
    gate_.TryGrant();
    passes_.AnswerWaiters();
  } while (thread_.TakeProgress());
}

SwapStats Mover::stats() const {
  SwapStats stats = record_.stats();
  stats.io = engine_->stats();
  stats.update_busy_seconds = workers_.busy_seconds();
  lane_->AddTo(&stats);
  return stats;
}

}  // namespace spillway
