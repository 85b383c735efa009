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
    SPILLWAY_CHECK(planes[plane] != nullptr);
    if (to_device) {
      context_.lane->CopyToDevice(unit, home, planes[plane], bytes);
    } else {
      context_.lane->CopyToHost(unit, planes[plane], home, bytes);
    }
  }
}

void DeviceTiles::CopyIn(TileJob& job) {
  const Pass& pass = *job.pass;
  const int unit = pass.unit, tile = job.tile;
  if (job.sums != nullptr) {
    const bool stays = plan_.deferred[unit] && plan_.placements[unit].gradient == Tier::kDevice;
    char* const gradient = stays ? job.gradient : context_.Address(plan_.rounded_span);
    Round(job, gradient);
    if (!stays) {
      context_.lane->CopyToHost(unit, job.gradient, gradient, layout_.GradientBytes(unit, tile));
    }
    BringStatistics(job);
  }
  if (job.weights != nullptr) {
    context_.lane->CopyToHost(unit, job.planes[0], std::exchange(job.weights, nullptr),
                              layout_.PlaneBytes(unit, tile, 0));
  } else if (pass.kind != PassKind::kRound) {
    CopyPlanes(unit, tile, /*to_device=*/false, job.planes);
  }
}

void DeviceTiles::CopyOut(TileJob& job) {
  const Pass& pass = *job.pass;
  if (job.destination != nullptr) {
    buffers_->WaitForAddresses(*pass.destination, StreamId::kToDevice);
    context_.lane->CopyToDevice(pass.unit, job.destination, job.planes[0],
                                layout_.PlaneBytes(pass.unit, job.tile, 0));
  } else {
    CopyPlanes(pass.unit, job.tile, /*to_device=*/true, job.planes);
  }
}

void DeviceTiles::UpdateInPlace(TileJob& job) {
  const int unit = job.pass->unit, tile = job.tile;
  char* gradient = job.gradient;
  if (job.sums != nullptr) {
    gradient = context_.Address(plan_.rounded_span);
    Round(job, gradient);
  }
  std::vector<char*> planes;
  for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
    planes.push_back(context_.PlaneHome(unit, tile, plane));
  }
  Update(job, std::move(planes), gradient);
  BringStatistics(job);
}

bool DeviceTiles::TakeMemory(TileJob& job) {
  SPILLWAY_CHECK(job.device_tile < 0);
  if (free_tiles_.empty()) return false;
  job.device_tile = free_tiles_.back();
  free_tiles_.pop_back();
  return true;
}

void DeviceTiles::GiveBackMemory(TileJob& job) {
  SPILLWAY_CHECK(job.device_tile >= 0);
  free_tiles_.push_back(std::exchange(job.device_tile, -1));
  SPILLWAY_CHECK(free_tiles_.size() <= plan_.device_tile_spans.size());
}

void DeviceTiles::UpdateStreamed(TileJob& job) {
  const Pass& pass = *job.pass;
  SPILLWAY_CHECK(job.device_tile >= 0);
  DeviceLane& lane = *context_.lane;
  const int unit = pass.unit, tile = job.tile;
  char* const there = context_.Address(plan_.device_tile_spans[job.device_tile]);
  const uint64_t weight_bytes = layout_.PlaneBytes(unit, tile, 0);
  std::vector<char*> planes;
  for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
    planes.push_back(plan_.HomeOnDevice(unit, plane)
                         ? context_.PlaneHome(unit, tile, plane)
                         : there + layout_.PlaneOffset(unit, tile, plane));
    if (!plan_.StreamsIn(unit, plane)) continue;
    lane.CopyToDevice(unit, planes[plane], job.planes[plane],
                      layout_.PlaneBytes(unit, tile, plane));
  }
  char* gradient = context_.Address(plan_.rounded_span);
  if (job.sums == nullptr) {
    gradient = there + plan_.device_tile_gradient_offset;
    lane.CopyToDevice(unit, gradient, job.gradient, layout_.GradientBytes(unit, tile));
  }

  lane.Wait(StreamId::kToHost, lane.Record(StreamId::kToDevice));
  if (job.sums != nullptr) Round(job, gradient);
  // The op that completed the sums was the last to read them.
  if (job.weights != nullptr) {
    lane.CopyWithin(planes[0], std::exchange(job.weights, nullptr), weight_bytes);
  }
  Update(job, planes, gradient);
  BringStatistics(job);
  if (job.destination != nullptr) {
    buffers_->WaitForAddresses(*pass.destination, StreamId::kToHost);
    lane.CopyWithin(job.destination, planes[0], weight_bytes);
  }
  for (int plane = 0; plane < layout_.NumPlanes(unit); ++plane) {
    if (!plan_.StreamsOut(unit, plane)) continue;
    lane.CopyToHost(unit, job.planes[plane], planes[plane], layout_.PlaneBytes(unit, tile, plane));
  }
}

void DeviceTiles::GiveBackStatistics(TileJob& job) {
  if (job.statistics_slot < 0) return;
  free_statistics_.push_back(std::exchange(job.statistics_slot, -1));
  SPILLWAY_CHECK(free_statistics_.size() <= kMaxDeviceTiles);
}

TileStatistics* DeviceTiles::StatisticsThere() const {
  const ArenaSpan& span = plan_.rounded_span;
  return reinterpret_cast<TileStatistics*>(context_.Address(span) + span.bytes - kPartialBytes);
}

// The device has one place for what it learns; the host's copy of it is the job's own.
void DeviceTiles::BringStatistics(TileJob& job) {
  static_assert(sizeof(TileStatistics) <= kPartialBytes);
  SPILLWAY_CHECK(!free_statistics_.empty() && job.statistics_slot < 0);
  job.statistics_slot = free_statistics_.back();
  free_statistics_.pop_back();
  char* const slot = context_.Address(plan_.partials_span) + job.statistics_slot * kPartialBytes;
  context_.lane->CopyWord(slot, reinterpret_cast<const char*>(StatisticsThere()),
                          sizeof(TileStatistics));
  job.statistics = reinterpret_cast<const TileStatistics*>(slot);
}

// Rounds the job's sums into `gradient`, in the device's memory.
void DeviceTiles::Round(TileJob& job, char* gradient) {
  Pass& pass = *job.pass;
  context_.lane->Wait(StreamId::kToHost, std::exchange(pass.sums_complete, nullptr));
  context_.lane->Launch(pass.unit, job.tile,
                        [compute = context_.compute, unit = pass.unit, tile = job.tile,
                         parameters = layout_.TileParameters(pass.unit, job.tile),
                         sums = reinterpret_cast<const float*>(job.sums), gradient,
                         statistics = StatisticsThere()](void* native_stream) {
                          return compute->RoundOnDevice(native_stream, unit, tile, parameters, sums,
                                                        gradient, &statistics->partial);
                        });
}

// Where the tile's planes and its rounded gradient are there.
void DeviceTiles::Update(TileJob& job, std::vector<char*> planes, char* gradient) {
  context_.lane->Launch(job.pass->unit, job.tile,
                        [compute = context_.compute, view = ViewOf(context_, job),
                         planes = std::move(planes), gradient, scalars = job.pass->scalars,
                         statistics = StatisticsThere()](void* native_stream) mutable {
                          view.planes = planes.data();
                          view.gradient = gradient;
                          return compute->UpdateOnDevice(native_stream, view, scalars,
                                                         &statistics->largest_magnitude);
                        });
}

}  // namespace spillway
