#include "swap/mover/device_tiles.h"

#include <utility>

#include "io/base/check.h"

namespace spillway {

DeviceTiles::DeviceTiles(const MoverContext& context, Buffers* buffers)
    : context_(context), buffers_(buffers) {
  for (int i = 0; i < kMaxDeviceTiles; ++i) free_statistics_.push_back(i);
  for (int i = 0; i < context.plan.device_tile_spans.size(); ++i) free_tiles_.push_back(i);
}

void DeviceTiles::CopyPlanes(int unit, int tile, bool to_device, const std::vector<char*>& planes) {
  for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
    if (!plan_.HomeOnDevice(unit, plane)) continue;
    char* const home = context_.PlaneHome(unit, tile, plane);
    const uint64_t bytes = layout_.PlaneBytes(unit, tile, plane);
    if (to_device) {
      context_.lane->CopyToDevice(unit, home, planes[plane], bytes);
    } else {
      context_.lane->CopyToHost(unit, planes[plane], home, bytes);
    }
  }
}

void DeviceTiles::CopyIn(TileTask& task) {
  const Pass& pass = *task.pass;
  const int unit = pass.unit, tile = task.tile;
  if (task.sums != nullptr) {
    const bool stays = plan_.deferred[unit] && plan_.placements[unit].gradient == Tier::kDevice;
    char* const gradient = stays ? task.gradient : context_.Address(plan_.rounded_span);
    Round(task, gradient);
    if (!stays) {
      context_.lane->CopyToHost(unit, task.gradient, gradient, layout_.GradientBytes(unit, tile));
    }
    BringStatistics(task);
  }
  if (task.weights != nullptr) {
    context_.lane->CopyToHost(unit, task.planes[0], std::exchange(task.weights, nullptr),
                              layout_.PlaneBytes(unit, tile, 0));
  } else if (pass.kind != PassKind::kRound) {
    CopyPlanes(unit, tile, /*to_device=*/false, task.planes);
  }
}

void DeviceTiles::CopyOut(TileTask& task) {
  const Pass& pass = *task.pass;
  if (task.destination != nullptr) {
    buffers_->WaitForAddresses(*pass.destination, StreamId::kToDevice);
    context_.lane->CopyToDevice(pass.unit, task.destination, task.planes[0],
                                layout_.PlaneBytes(pass.unit, task.tile, 0));
  } else {
    CopyPlanes(pass.unit, task.tile, /*to_device=*/true, task.planes);
  }
}

void DeviceTiles::UpdateInPlace(TileTask& task) {
  const int unit = task.pass->unit, tile = task.tile;
  char* gradient = task.gradient;
  if (task.sums != nullptr) {
    gradient = context_.Address(plan_.rounded_span);
    Round(task, gradient);
  }
  std::vector<char*> planes;
  for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
    planes.push_back(context_.PlaneHome(unit, tile, plane));
  }
  Update(task, std::move(planes), gradient);
  BringStatistics(task);
}

bool DeviceTiles::TakeMemory(TileTask& task) {
  if (free_tiles_.empty()) return false;
  task.device_tile = free_tiles_.back();
  free_tiles_.pop_back();
  return true;
}

void DeviceTiles::GiveBackMemory(TileTask& task) {
  free_tiles_.push_back(std::exchange(task.device_tile, -1));
}

void DeviceTiles::UpdateStaged(TileTask& task) {
  const Pass& pass = *task.pass;
  DeviceLane& lane = *context_.lane;
  const int unit = pass.unit, tile = task.tile;
  char* const there = context_.Address(plan_.device_tile_spans[task.device_tile]);
  const uint64_t weight_bytes = layout_.PlaneBytes(unit, tile, 0);
  std::vector<char*> planes;
  for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
    planes.push_back(plan_.HomeOnDevice(unit, plane)
                         ? context_.PlaneHome(unit, tile, plane)
                         : there + layout_.PlaneOffset(unit, tile, plane));
    if (!plan_.StreamsIn(unit, plane)) continue;
    lane.CopyToDevice(unit, planes[plane], task.planes[plane],
                      layout_.PlaneBytes(unit, tile, plane));
  }
  char* gradient = context_.Address(plan_.rounded_span);
  if (task.sums == nullptr) {
    gradient = there + plan_.device_tile_gradient_offset;
    lane.CopyToDevice(unit, gradient, task.gradient, layout_.GradientBytes(unit, tile));
  }

  lane.Wait(StreamId::kToHost, lane.Record(StreamId::kToDevice));
  if (task.sums != nullptr) Round(task, gradient);
  // The op that completed the sums was the last to read them.
  if (task.weights != nullptr) {
    lane.CopyWithin(planes[0], std::exchange(task.weights, nullptr), weight_bytes);
  }
  Update(task, planes, gradient);
  BringStatistics(task);
  if (task.destination != nullptr) {
    buffers_->WaitForAddresses(*pass.destination, StreamId::kToHost);
    lane.CopyWithin(task.destination, planes[0], weight_bytes);
  }
  for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
    if (!plan_.StreamsOut(unit, plane)) continue;
    lane.CopyToHost(unit, task.planes[plane], planes[plane], layout_.PlaneBytes(unit, tile, plane));
  }
}

void DeviceTiles::GiveBackStatistics(TileTask& task) {
  if (task.statistics_slot >= 0) free_statistics_.push_back(task.statistics_slot);
}

TileStatistics* DeviceTiles::StatisticsThere() const {
  const ArenaSpan& span = plan_.rounded_span;
  return reinterpret_cast<TileStatistics*>(context_.Address(span) + span.bytes - kPartialBytes);
}

// The device has one place for what it learns; the host's copy of it is the task's own.
void DeviceTiles::BringStatistics(TileTask& task) {
  static_assert(sizeof(TileStatistics) <= kPartialBytes);
  SPILLWAY_CHECK(!free_statistics_.empty());
  task.statistics_slot = free_statistics_.back();
  free_statistics_.pop_back();
  char* const slot = context_.Address(plan_.partials_span) + task.statistics_slot * kPartialBytes;
  context_.lane->CopyWord(slot, reinterpret_cast<const char*>(StatisticsThere()),
                          sizeof(TileStatistics));
  task.statistics = reinterpret_cast<const TileStatistics*>(slot);
}

// Rounds the task's sums into `gradient`, in the device's memory.
void DeviceTiles::Round(TileTask& task, char* gradient) {
  Pass& pass = *task.pass;
  context_.lane->Wait(StreamId::kToHost, std::exchange(pass.sums_complete, nullptr));
  context_.lane->Launch(pass.unit, task.tile,
                        [compute = context_.compute, unit = pass.unit, tile = task.tile,
                         parameters = layout_.TileParameters(pass.unit, task.tile),
                         sums = reinterpret_cast<const float*>(task.sums), gradient,
                         statistics = StatisticsThere()](void* native_stream) {
                          return compute->RoundOnDevice(native_stream, unit, tile, parameters, sums,
                                                        gradient, &statistics->partial);
                        });
}

// Where the tile's planes and its rounded gradient are there.
void DeviceTiles::Update(TileTask& task, std::vector<char*> planes, char* gradient) {
  context_.lane->Launch(task.pass->unit, task.tile,
                        [compute = context_.compute, view = ViewOf(context_, task),
                         planes = std::move(planes), gradient, scalars = task.pass->scalars,
                         statistics = StatisticsThere()](void* native_stream) mutable {
                          view.planes = planes.data();
                          view.gradient = gradient;
                          return compute->UpdateOnDevice(native_stream, view, scalars,
                                                         &statistics->largest_magnitude);
                        });
}

}  // namespace spillway
