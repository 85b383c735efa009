// OptimizerTiles whose tiles may lie in a GPU's memory: the same update, the same rounding, the
// same bits, as kernels in the stream that the device hands over.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/numeric/optimizer.h"

namespace spillway {

// Immutable: any number of threads. With a null stream, and in Round and Update, the calling
// thread computes in host memory. An error means that CUDA refused a launch.
class CudaOptimizerTiles : public OptimizerTiles {
 public:
  using OptimizerTiles::OptimizerTiles;

  // `sums`, `gradient` (which may be `sums`) and `partial` are the device's.
  absl::Status RoundOnDevice(void* native_stream, int unit, int tile, uint64_t parameters,
                             const float* sums, void* gradient, GradientPartial* partial) override;

  // The tile's planes, its gradient and `largest_magnitude` are the device's; tile.planes
  // itself, the list of them, is the host's and read before this returns. Unlike Update it goes
  // on after an unstorable master: the tile is unusable either way.
  absl::Status UpdateOnDevice(void* native_stream, const TileView& tile,
                              const UpdateScalars& scalars, uint32_t* largest_magnitude) override;
};

}  // namespace spillway
