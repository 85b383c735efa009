#include "engine/estimate/device_probe.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/cuda/cuda_optimizer_tiles.h"
#include "engine/numeric/optimizer_state.h"
#include "io/base/clock.h"
#include "io/base/status.h"
#include "swap/device/arena.h"
#include "swap/device/memory_budget.h"

namespace spillway {
namespace {

constexpr uint64_t kLeastBytes = 64 << 10;
constexpr uint64_t kMostPieceBytes = 4 << 20;
constexpr double kRoundSeconds = 0.005;  // copies for at least this time
constexpr int kDeviceRounds = 5;
constexpr uint64_t kPageBytes = 4096;

double MedianSeconds(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The time at which a stream reached a place, as its note reports it.
struct Moment {
  double seconds = 0;
};

// Times work in one or both directions, from its start to its end in each stream.
class Timed {
 public:
  explicit Timed(Device& device) : device_(device) {}

  void Begin(StreamId stream) { Note(stream, begin_[static_cast<int>(stream)]); }
  void End(StreamId stream) { Note(stream, end_[static_cast<int>(stream)]); }
  // Call after Synchronize, which all notes precede.
  double Seconds(StreamId stream) const {
    const int i = static_cast<int>(stream);
    return std::max(1e-9, end_[i].seconds - begin_[i].seconds);
  }

 private:
  void Note(StreamId stream, Moment& moment) {
    device_.Notify(stream, [&moment](const absl::Status&) { moment.seconds = MonotonicSeconds(); });
  }

  Device& device_;
  Moment begin_[kStreams], end_[kStreams];
};

class LinkProbe {
 public:
  static absl::StatusOr<std::unique_ptr<LinkProbe>> Create(Device& device, uint64_t buffer_bytes) {
    std::unique_ptr<LinkProbe> probe(new LinkProbe(device, std::max(buffer_bytes, kLeastBytes)));
    // Half of each memory is used for each direction.
    probe->host_budget_ = std::make_unique<MemoryBudget>("probe", probe->bytes_ + kPageBytes);
    probe->device_budget_ = std::make_unique<MemoryBudget>("probe", probe->bytes_ + kPageBytes);
    ASSIGN_OR_RETURN(probe->host_,
                     Arena::Create(probe->bytes_, probe->host_budget_.get(), &device));
    ASSIGN_OR_RETURN(probe->on_device_,
                     Arena::CreateOn(&device, probe->bytes_, probe->device_budget_.get()));
    std::memset(probe->host_->data(), 0x5a, probe->bytes_);
    return probe;
  }

  // Bytes a second each way, 0 for a direction that is not asked for. With both directions, the
  // longer one is timed until both are done: neither has the link to itself for long.
  absl::StatusOr<LinkRates> Run(bool to_device, bool to_host) {
    std::vector<double> there, back;
    uint64_t pieces = 1;
    for (int round = 0; round < kDeviceRounds;) {
      Timed timed(device_);
      if (to_device) timed.Begin(StreamId::kToDevice);
      if (to_host) timed.Begin(StreamId::kToHost);
      for (uint64_t i = 0; i < pieces; ++i) {
        if (to_device) device_.Copy(StreamId::kToDevice, on_device_->data(), host_->data(), piece_);
        if (to_host) {
          device_.Copy(StreamId::kToHost, host_->data() + piece_, on_device_->data() + piece_,
                       piece_);
        }
      }
      if (to_device) timed.End(StreamId::kToDevice);
      if (to_host) timed.End(StreamId::kToHost);
      RETURN_IF_ERROR(device_.Synchronize());
      const double bytes = static_cast<double>(pieces * piece_);
      const double seconds = std::max(to_device ? timed.Seconds(StreamId::kToDevice) : 0,
                                      to_host ? timed.Seconds(StreamId::kToHost) : 0);
      // The number of copies grows until the cost of notes is negligible; the first round is cold.
      if (seconds < kRoundSeconds && pieces < kMostPieces) {
        pieces *= 4;
        continue;
      }
      if (to_device) there.push_back(bytes / timed.Seconds(StreamId::kToDevice));
      if (to_host) back.push_back(bytes / timed.Seconds(StreamId::kToHost));
      ++round;
    }
    return LinkRates{to_device ? MedianSeconds(there) : 0.0, to_host ? MedianSeconds(back) : 0.0};
  }

 private:
  static constexpr uint64_t kMostPieces = 4096;

  LinkProbe(Device& device, uint64_t buffer_bytes)
      : device_(device),
        piece_(std::min(buffer_bytes / 2 / kPageBytes * kPageBytes, kMostPieceBytes)),
        bytes_(2 * piece_) {}

  Device& device_;
  const uint64_t piece_;
  const uint64_t bytes_;
  std::unique_ptr<MemoryBudget> host_budget_, device_budget_;
  std::unique_ptr<Arena> host_, on_device_;
};

}  // namespace

absl::StatusOr<LinkMeasurement> MeasureLink(Device& device, uint64_t buffer_bytes) {
  ASSIGN_OR_RETURN(const auto probe, LinkProbe::Create(device, buffer_bytes));
  ASSIGN_OR_RETURN(const LinkRates there, probe->Run(/*to_device=*/true, /*to_host=*/false));
  ASSIGN_OR_RETURN(const LinkRates back, probe->Run(/*to_device=*/false, /*to_host=*/true));
  LinkMeasurement link;
  link.alone = {there.to_device_bytes_per_second, back.to_host_bytes_per_second};
  ASSIGN_OR_RETURN(link.both_ways, probe->Run(/*to_device=*/true, /*to_host=*/true));
  return link;
}

absl::StatusOr<double> MeasureDeviceUpdates(Device& device, const OptimizerSpec& spec, DType dtype,
                                            const StateLayout& layout, uint64_t memory_bytes) {
  // One unit of one tile, as in the run, or with as many parameters as the memory holds.
  uint64_t parameters = kParameterAlignment;
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    if (layout.NumTiles(unit) > 0) {
      parameters = std::max(parameters, layout.TileParameters(unit, 0));
    }
  }
  const StateLayout least({{"probe", kParameterAlignment}}, layout.planes(),
                          layout.gradient_bytes_per_parameter(), kParameterAlignment);
  const uint64_t each = least.TileBytes(0, 0) / kParameterAlignment +
                        layout.gradient_bytes_per_parameter() + sizeof(float);
  const uint64_t room = memory_bytes / each / kParameterAlignment * kParameterAlignment;
  parameters = std::clamp(room, kParameterAlignment, parameters);
  const StateLayout one({{"probe", parameters}}, layout.planes(),
                        layout.gradient_bytes_per_parameter(), layout.tile_parameters());
  CudaOptimizerTiles optimizer(spec, dtype, one, {{{0, parameters}}});

  struct Learned {
    GradientPartial partial;
    uint32_t largest_magnitude = 0;
  };
  // Each part begins at a page; a state of zeros is valid.
  uint64_t bytes = 0;
  const auto place = [&bytes](uint64_t part) {
    const uint64_t at = bytes;
    bytes += (part + kPageBytes - 1) / kPageBytes * kPageBytes;
    return at;
  };
  std::vector<uint64_t> planes_at;
  for (int plane = 0; plane < one.num_planes(); ++plane) {
    planes_at.push_back(place(one.PlaneBytes(0, 0, plane)));
  }
  const uint64_t gradient_at = place(one.GradientBytes(0, 0));
  const uint64_t sums_at = place(parameters * sizeof(float));
  const uint64_t learned_at = place(sizeof(Learned));
  MemoryBudget host_budget("probe", 2 * kMostPieceBytes), device_budget("probe", bytes);
  ASSIGN_OR_RETURN(const auto zeros, Arena::Create(kMostPieceBytes, &host_budget, &device));
  ASSIGN_OR_RETURN(const auto memory, Arena::CreateOn(&device, bytes, &device_budget));
  std::memset(zeros->data(), 0, kMostPieceBytes);
  for (uint64_t at = 0; at < bytes; at += kMostPieceBytes) {
    device.Copy(StreamId::kToHost, memory->data() + at, zeros->data(),
                std::min(kMostPieceBytes, bytes - at));
  }
  std::vector<char*> planes;
  for (uint64_t at : planes_at) planes.push_back(memory->data() + at);
  auto* const sums = reinterpret_cast<float*>(memory->data() + sums_at);
  char* const gradient = memory->data() + gradient_at;
  auto* const learned = reinterpret_cast<Learned*>(memory->data() + learned_at);

  const bool updates = !MeasuresFirst(spec);  // else the host updates
  const auto touch = [&](int64_t step) {
    device.Launch(StreamId::kToHost, [&](void* native_stream) {
      return optimizer.RoundOnDevice(native_stream, 0, 0, parameters, sums, gradient,
                                     &learned->partial);
    });
    if (!updates) return;
    device.Launch(StreamId::kToHost, [&, step](void* native_stream) {
      TileView view;
      view.parameters = parameters;
      view.planes = planes.data();
      view.gradient = gradient;
      return optimizer.UpdateOnDevice(native_stream, view, {.step = step, .learning_rate = 1e-6},
                                      &learned->largest_magnitude);
    });
  };
  const double touched =
      static_cast<double>(one.GradientBytes(0, 0) + parameters * sizeof(float)) +
      (updates ? static_cast<double>(2 * one.TileBytes(0, 0) + one.GradientBytes(0, 0)) : 0);
  // The first round loads the kernels; the best of the others counts.
  constexpr int kTilesEach = 4;
  double best = 0;
  for (int repeat = 0; repeat < 4; ++repeat) {
    Timed timed(device);
    timed.Begin(StreamId::kToHost);
    for (int i = 0; i < kTilesEach; ++i) touch(1 + repeat);
    timed.End(StreamId::kToHost);
    RETURN_IF_ERROR(device.Synchronize());
    if (repeat > 0) best = std::max(best, kTilesEach * touched / timed.Seconds(StreamId::kToHost));
  }
  return best;
}

}  // namespace spillway
