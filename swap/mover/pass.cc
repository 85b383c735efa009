#include "swap/mover/pass.h"

#include <utility>

#include "io/base/check.h"

namespace spillway {

SpanKind SpanKindOf(PassKind kind) {
  switch (kind) {
    case PassKind::kRound:
      return SpanKind::kRound;
    case PassKind::kMeasure:
      return SpanKind::kMeasure;
    case PassKind::kUpdate:
      return SpanKind::kUpdate;
    case PassKind::kInitialize:
      return SpanKind::kFill;
    case PassKind::kSave:
      return SpanKind::kSave;
  }
  return SpanKind::kUpdate;
}

void Pass::Route(const MoverContext& context) {
  const SwapPlan& plan = context.plan;
  SPILLWAY_CHECK(unit >= 0 && unit < context.layout.num_units());
  SPILLWAY_CHECK(kind != PassKind::kRound || sums != nullptr);
  SPILLWAY_CHECK(kind != PassKind::kInitialize || sums == nullptr);
  const bool separate = plan.separate_device;
  const bool gradient_in_store = context.GradientInStore(unit);
  num_tiles = scalars.skip ? 0 : context.layout.NumTiles(unit);
  SPILLWAY_CHECK(kind != PassKind::kMeasure || !plan.DeviceUpdates(unit));  // the host measures
  gradient_alone = kind == PassKind::kMeasure && measure < plan.schedule.measures.gradients;
  deferred = updates() && sums == nullptr;
  // A frozen unit is filled and saved, and nothing else.
  SPILLWAY_CHECK(!context.layout.frozen(unit) || kind == PassKind::kInitialize ||
                 kind == PassKind::kSave);
  SPILLWAY_CHECK(!updates() || deferred == plan.deferred[unit]);
  on_device = updates() && plan.UpdatesOnDevice(unit);
  streamed = updates() && plan.streams_update[unit];
  at_turn = updates() && sums != nullptr && unit == plan.turn_unit;
  if (kind == PassKind::kRound) {
    // Sums in the host's memory are rounded in place.
    needs_tile_buffer = separate && gradient_in_store;
  } else if (plan.HomeOnDevice(unit, 0)) {
    needs_tile_buffer = true;  // what lives on a separate device passes through it
  } else if (kind != PassKind::kSave) {
    const bool brings_gradient = separate && sums != nullptr && !streamed;
    needs_tile_buffer = (plan.placements[unit].any_nvme() && !gradient_alone) ||
                        (reads_gradient() && gradient_in_store) || (updates() && brings_gradient);
  }
}

void Pass::BeginWith(const std::vector<int>& tiles) {
  SPILLWAY_CHECK(next_tile == 0 && tiles.size() <= num_tiles);
  if (tiles.size() == num_tiles) return;
  first_tiles = first_left = static_cast<int>(tiles.size());
  order = TileOrder(tiles, num_tiles);
}

void TileJob::Reset(Pass* of, int number) {
  TileJob fresh;
  fresh.work = work;
  fresh.pass = of;
  fresh.tile = number;
  fresh.planes = std::move(planes);
  fresh.planes.clear();
  fresh.checksums = std::move(checksums);
  fresh.checksums.clear();
  fresh.saved_planes = std::move(saved_planes);
  fresh.saved_planes.clear();
  fresh.save_requests = std::move(save_requests);
  *this = std::move(fresh);
}

TileView ViewOf(const MoverContext& context, const TileJob& job) {
  TileView view;
  view.unit = job.pass->unit;
  view.tile = job.tile;
  view.first_parameter = context.layout.TileBegin(job.tile);
  view.parameters = context.layout.TileParameters(view.unit, job.tile);
  view.planes = job.planes.data();
  view.gradient = job.gradient;
  return view;
}

}  // namespace spillway
