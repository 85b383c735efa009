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
  const bool discrete = plan.separate_device;
  const bool gradient_in_store = context.GradientInStore(unit);
  num_tiles = scalars.skip ? 0 : context.layout.NumTiles(unit);
  SPILLWAY_CHECK(kind != PassKind::kMeasure || !plan.DeviceUpdates(unit));  // the host measures
  gradient_alone = kind == PassKind::kMeasure && measure < plan.schedule.measures.gradients;
  deferred = updates() && sums == nullptr;
  on_device = updates() && plan.UpdatesOnDevice(unit);
  staged = updates() && plan.streams_update[unit];
  at_boundary = updates() && sums != nullptr && unit == plan.turn_unit;
  if (kind == PassKind::kRound) {
    // Sums in the host's memory are rounded in place.
    needs_tile_buffer = discrete && gradient_in_store;
  } else if (plan.HomeOnDevice(unit, 0)) {
    needs_tile_buffer = true;  // what lives on a discrete device passes through it
  } else if (kind != PassKind::kSave) {
    const bool brings_gradient = discrete && sums != nullptr && !staged;
    needs_tile_buffer = (plan.placements[unit].any_nvme() && !gradient_alone) ||
                        (reads_gradient() && gradient_in_store) || (updates() && brings_gradient);
  }
}

void Pass::BeginWith(const std::vector<int>& tiles) {
  if (tiles.size() == num_tiles) return;
  first_tiles = first_left = static_cast<int>(tiles.size());
  order = TileOrder(tiles, num_tiles);
}

void TileTask::Reset(Pass* of, int number) {
  TileTask fresh;
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

TileView ViewOf(const MoverContext& context, const TileTask& task) {
  TileView view;
  view.unit = task.pass->unit;
  view.tile = task.tile;
  view.first_parameter = context.layout.TileBegin(task.tile);
  view.parameters = context.layout.TileParameters(view.unit, task.tile);
  view.planes = task.planes.data();
  view.gradient = task.gradient;
  return view;
}

}  // namespace spillway
