// The arithmetic done on tiles as they pass through memory. The engine provides
// it; the swap manager calls it from its worker threads and knows nothing about it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace spillway {

// The numbers of one optimizer step that are known only when it ends.
struct UpdateScalars {
  int64_t step = 0;  // from 1
  double learning_rate = 0;
  double gradient_scale = 1;  // clip coefficient / loss scale
  bool skip = false;          // fp16 overflow: gradients are dropped, nothing changes
  std::optional<std::array<double, 2>> betas = std::nullopt;  // where they aren't the optimizer's
};

// One tile in memory. Planes in the layout's order; each has
// PlaneBytes(unit, tile, plane) bytes, 64-byte aligned.
struct TileView {
  int unit = 0;
  int tile = 0;
  uint64_t first_parameter = 0;
  uint64_t parameters = 0;  // with padding
  char* const* planes = nullptr;
  const void* gradient = nullptr;  // rounded, in the run's dtype
};

// Statistics of one tile's gradient, collected while it is rounded.
struct GradientPartial {
  double sum_of_squares = 0;  // of the rounded values; may be inf or nan
  bool finite = true;
};

// Called from several worker threads at once, for different tiles.
class TileCompute {
 public:
  virtual ~TileCompute() = default;

  // Rounds fp32 sums to the gradient plane. `gradient` may be `sums` itself.
  virtual GradientPartial Round(int unit, int tile, uint64_t parameters, const float* sums,
                                void* gradient) = 0;
  // The statistics of a gradient that is rounded already, as Round would return them.
  virtual GradientPartial Learn(int unit, int tile, uint64_t parameters, const void* gradient) = 0;

  // Collects what the updates of all tiles need from this one (StepSchedule::measures; `measure`
  // counts the passes). The gradient, and unless gradients alone are measured the planes, are those
  // that Update will get; none is changed.
  virtual void Measure(const TileView& tile, const UpdateScalars& scalars, int measure) {}

  // Updates the tile in place. An error (a master that is not finite) ends the run;
  // its message names unit and step.
  virtual absl::Status Update(const TileView& tile, const UpdateScalars& scalars) = 0;

  // Round where the sums and the gradient are in a device's memory, in stream order.
  // `native_stream` is the one that Device::Kernel gets; null: the calling thread computes, now.
  virtual absl::Status RoundOnDevice(void* native_stream, int unit, int tile, uint64_t parameters,
                                     const float* sums, void* gradient, GradientPartial* partial) {
    if (native_stream != nullptr) {
      return absl::UnimplementedError("gradients cannot be rounded on this device");
    }
    *partial = Round(unit, tile, parameters, sums, gradient);
    return absl::OkStatus();
  }
  // Update where the planes, the gradient and *largest_magnitude are in a device's memory, in
  // stream order. A master that cannot be stored is no error yet: its magnitude bits are put into
  // *largest_magnitude, or 0 where all can be stored. CheckUpdated makes the error.
  virtual absl::Status UpdateOnDevice(void* native_stream, const TileView& tile,
                                      const UpdateScalars& scalars, uint32_t* largest_magnitude) {
    if (native_stream != nullptr) {
      return absl::UnimplementedError("no kernels for this device: it can't update tiles");
    }
    *largest_magnitude = 0;
    return Update(tile, scalars);
  }
  // The status that Update would have returned. It is called once *largest_magnitude of
  // UpdateOnDevice and the tile's new planes (without the gradient) are in host memory.
  virtual absl::Status CheckUpdated(const TileView& tile, const UpdateScalars& scalars,
                                    uint32_t largest_magnitude) {
    return absl::OkStatus();
  }
};

}  // namespace spillway
