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

// What is learned of a tile's gradient while it is rounded.
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
  // What Round would have learned of a gradient that is rounded already.
  virtual GradientPartial Learn(int unit, int tile, uint64_t parameters, const void* gradient) = 0;

  // What the update of any tile needs to know of this one (StepSchedule::measures; `measure` says
  // which). Its gradient is as Update will get it, and so are its planes unless gradients alone are
  // measured; nothing is changed.
  virtual void Measure(const TileView& tile, const UpdateScalars& scalars, int measure) {}

  // Updates the tile in place. An error (a master that is not finite) ends the run;
  // its message names unit and step.
  virtual absl::Status Update(const TileView& tile, const UpdateScalars& scalars) = 0;

  // The same where tiles are in a device's memory, in stream order. `native_stream`: as
  // Device::Kernel gets it; null: the calling thread computes, now.
  virtual absl::Status RoundOnDevice(void* native_stream, int unit, int tile, uint64_t parameters,
                                     const float* sums, void* gradient, GradientPartial* partial) {
    if (native_stream != nullptr) {
      return absl::UnimplementedError("gradients cannot be rounded on this device");
    }
    *partial = Round(unit, tile, parameters, sums, gradient);
    return absl::OkStatus();
  }
  // Update where the planes, the gradient and the word are in a device's memory, likewise. In a
  // stream an unstorable master is no error yet: *largest_magnitude is its magnitude bits,
  // or 0 where all may stand. CheckUpdated tells.
  virtual absl::Status UpdateOnDevice(void* native_stream, const TileView& tile,
                                      const UpdateScalars& scalars, uint32_t* largest_magnitude) {
    if (native_stream != nullptr) {
      return absl::UnimplementedError("no kernels for this device: it can't update tiles");
    }
    *largest_magnitude = 0;
    return Update(tile, scalars);
  }
  // What Update would have said, once both the word that UpdateOnDevice left and the tile's new
  // planes (but for the gradient) are in host memory.
  virtual absl::Status CheckUpdated(const TileView& tile, const UpdateScalars& scalars,
                                    uint32_t largest_magnitude) {
    return absl::OkStatus();
  }
};

}  // namespace spillway
