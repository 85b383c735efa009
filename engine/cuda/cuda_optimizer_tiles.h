// OptimizerTiles for tiles in GPU memory: the same update and rounding to the same bits, as kernels
// in the device's stream.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/numeric/optimizer.h"

namespace spillway {

// Immutable: any number of threads. With a null stream, and in Round and Update, the calling thread
// computes in host memory. An error is a launch that CUDA refused.
class CudaOptimizerTiles : public OptimizerTiles {
 public:
  using OptimizerTiles::OptimizerTiles;

  // `sums`, `gradient` (which may be `sums`) and `partial` are in device memory.
  absl::Status RoundOnDevice(void* native_stream, int unit, int tile, uint64_t parameters,
                             const float* sums, void* gradient, GradientPartial* partial) override;

  // The tile's planes, its gradient and `largest_magnitude` are in device memory; tile.planes, the
  // list, is in host memory and read before this returns. Unlike Update it continues after an
  // unstorable master: the tile is unusable either way.
  absl::Status UpdateOnDevice(void* native_stream, const TileView& tile,
                              const UpdateScalars& scalars, uint32_t* largest_magnitude) override;
};

}  // namespace spillway
