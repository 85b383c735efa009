#include "engine/estimate/step_forecast.h"

#include <algorithm>
#include <numeric>

#include "io/base/check.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

constexpr Resource kResources[] = {Resource::kCompute, Resource::kDisk, Resource::kUpdate,
                                   Resource::kCopy, Resource::kCollective};

double Seconds(uint64_t bytes, double bytes_per_second) {
  return SecondsAt(bytes_per_second, static_cast<double>(bytes));
}

double CopySeconds(const LinkRates& link, uint64_t to_device_bytes, uint64_t to_host_bytes) {
  return std::max(link.SecondsToDevice(static_cast<double>(to_device_bytes)),
                  link.SecondsToHost(static_cast<double>(to_host_bytes)));
}

double UpdateSeconds(const ForecastInput& input, const PhaseTraffic& traffic) {
  return std::max(Seconds(traffic.update_bytes, input.update_bytes_per_second),
                  Seconds(traffic.device_update_bytes, input.device_update_bytes_per_second));
}

uint64_t BytesLess(uint64_t bytes, uint64_t taken) { return bytes > taken ? bytes - taken : 0; }

// Both at once, or one after the other if that is faster.
double LeastDiskSeconds(const DiskRates& disk, uint64_t read_bytes, uint64_t written_bytes) {
  return std::min(disk.Seconds(static_cast<double>(read_bytes), static_cast<double>(written_bytes)),
                  Seconds(read_bytes, disk.read_bytes_per_second) +
                      Seconds(written_bytes, disk.write_bytes_per_second));
}

// The lower bound explained in the header.
double LeastSeconds(const ForecastInput& input) {
  PhaseTraffic total;
  for (const PhaseTraffic& phase : input.traffic) {
    total.read_bytes += phase.read_bytes;
    total.written_bytes += phase.written_bytes;
    total.update_bytes += phase.update_bytes;
    total.to_device_bytes += phase.to_device_bytes;
    total.to_host_bytes += phase.to_host_bytes;
    total.device_update_bytes += phase.device_update_bytes;
  }
  const auto& exchanged = input.collective_seconds;
  const double last_sums = exchanged[static_cast<int>(Phase::kFlush)];
  const double whole =
      std::max({input.forward_seconds + input.backward_seconds + last_sums,
                std::accumulate(exchanged.begin(), exchanged.end(), 0.0),
                LeastDiskSeconds(input.disk, total.read_bytes, total.written_bytes),
                UpdateSeconds(input, total),
                CopySeconds(input.link, total.to_device_bytes, total.to_host_bytes)});
  const PhaseTraffic& forward = input.traffic[static_cast<int>(Phase::kForward)];
  const double before_loss = std::max(
      {input.forward_seconds + last_sums, exchanged[static_cast<int>(Phase::kForward)] + last_sums,
       LeastDiskSeconds(input.disk, BytesLess(forward.read_bytes, input.carried_bytes),
                        BytesLess(forward.written_bytes, input.carried_bytes)),
       UpdateSeconds(input, forward),
       CopySeconds(input.link, BytesLess(forward.to_device_bytes, input.carried_bytes),
                   BytesLess(forward.to_host_bytes, input.carried_bytes))});
  return std::max(whole, before_loss + input.backward_seconds);
}

}  // namespace

absl::string_view ResourceName(Resource resource) {
  switch (resource) {
    case Resource::kDisk:
      return "disk";
    case Resource::kCompute:
      return "compute";
    case Resource::kUpdate:
      return "update";
    case Resource::kCopy:
      return "copy";
    case Resource::kCollective:
      return "collective";
  }
  return "?";
}

absl::string_view ResourceWords(Resource resource) {
  switch (resource) {
    case Resource::kDisk:
      return "the disk";
    case Resource::kCompute:
      return "computing";
    case Resource::kUpdate:
      return "the optimizer's updates";
    case Resource::kCopy:
      return "copies to and from the GPU";
    case Resource::kCollective:
      return "exchanges between ranks";
  }
  return "?";
}

double PhaseForecast::SecondsOf(Resource resource) const {
  switch (resource) {
    case Resource::kDisk:
      return disk_seconds;
    case Resource::kCompute:
      return compute_seconds;
    case Resource::kUpdate:
      return update_seconds;
    case Resource::kCopy:
      return copy_seconds;
    case Resource::kCollective:
      return collective_seconds;
  }
  return 0;
}

double SharedCores(int cores, int compute_threads, int workers) {
  SPILLWAY_CHECK(cores > 0 && compute_threads > 0 && workers > 0);
  const int idle = std::max(0, cores - compute_threads);
  return std::min(1.0, static_cast<double>(std::max(0, workers - idle)) / cores);
}

double BindingSeconds(const StepForecast& forecast,
                      const std::array<ResourceSeconds, kPhases>& busy) {
  double seconds = 0;
  for (int i = 0; i < kPhases; ++i) {
    seconds += busy[i][static_cast<int>(forecast.phases[i].binding)];
  }
  return seconds;
}

StepForecast Forecast(const ForecastInput& input) {
  StepForecast step;
  step.bound_seconds = LeastSeconds(input);
  ResourceSeconds bound_by{};
  for (int i = 0; i < kPhases; ++i) {
    const PhaseTraffic& traffic = input.traffic[i];
    PhaseForecast& phase = step.phases[i];
    phase.disk_seconds = input.disk.Seconds(static_cast<double>(traffic.read_bytes),
                                            static_cast<double>(traffic.written_bytes));
    phase.update_seconds = UpdateSeconds(input, traffic);
    phase.copy_seconds = CopySeconds(input.link, traffic.to_device_bytes, traffic.to_host_bytes);
    phase.collective_seconds = input.collective_seconds[i];
    if (i == static_cast<int>(Phase::kForward)) phase.compute_seconds = input.forward_seconds;
    if (i == static_cast<int>(Phase::kBackward)) phase.compute_seconds = input.backward_seconds;
    for (Resource resource : kResources) {
      if (phase.SecondsOf(resource) <= phase.bound_seconds) continue;
      phase.binding = resource;
      phase.bound_seconds = phase.SecondsOf(resource);
    }
    phase.predicted_seconds = std::max(
        phase.bound_seconds, phase.compute_seconds + input.shared_cores * phase.update_seconds);
    step.predicted_seconds += phase.predicted_seconds;
    bound_by[static_cast<int>(phase.binding)] += phase.bound_seconds;
  }
  for (Resource resource : kResources) {
    if (bound_by[static_cast<int>(resource)] > bound_by[static_cast<int>(step.binding)]) {
      step.binding = resource;
    }
  }
  return step;
}

nlohmann::json BindingJson(const StepForecast& forecast) {
  nlohmann::json binding = nlohmann::json::object();
  for (int i = 0; i < kPhases; ++i) {
    binding[std::string(PhaseName(static_cast<Phase>(i)))] =
        std::string(ResourceName(forecast.phases[i].binding));
  }
  return binding;
}

}  // namespace spillway
