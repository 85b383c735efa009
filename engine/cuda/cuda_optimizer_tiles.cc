#include "engine/cuda/cuda_optimizer_tiles.h"

#include <cstddef>
#include <vector>

#include "engine/cuda/kernels.h"
#include "engine/cuda/launch_status.h"
#include "engine/cuda/round_body.h"
#include "engine/cuda/update_body.h"
#include "engine/numeric/moment_code.h"
#include "engine/numeric/optimizer_state.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {

// The kernel writes one, and the mover reads the other.
static_assert(sizeof(RoundedPartial) == sizeof(GradientPartial));
static_assert(offsetof(RoundedPartial, finite) == offsetof(GradientPartial, finite));

absl::Status CudaOptimizerTiles::RoundOnDevice(void* native_stream, int unit, int tile,
                                               uint64_t parameters, const float* sums,
                                               void* gradient, GradientPartial* partial) {
  if (native_stream == nullptr) {
    return OptimizerTiles::RoundOnDevice(native_stream, unit, tile, parameters, sums, gradient,
                                         partial);
  }
  return LaunchStatus("rounding gradients",
                      LaunchRound(native_stream, dtype(),
                                  {.sums = sums,
                                   .gradient = static_cast<char*>(gradient),
                                   .partials = reinterpret_cast<RoundedPartial*>(partial),
                                   .parameters = parameters,
                                   .total = parameters}));
}

absl::Status CudaOptimizerTiles::UpdateOnDevice(void* native_stream, const TileView& tile,
                                                const UpdateScalars& scalars,
                                                uint32_t* largest_magnitude) {
  if (native_stream == nullptr) {
    return OptimizerTiles::UpdateOnDevice(native_stream, tile, scalars, largest_magnitude);
  }
  RETURN_IF_ERROR(LaunchStatus(
      "updating tiles", LaunchZero(native_stream, largest_magnitude, sizeof(*largest_magnitude))));
  if (scalars.skip) {
    return absl::OkStatus();
  }
  SPILLWAY_CHECK(tile.parameters <= UINT32_MAX);
  SPILLWAY_CHECK(!MeasuresFirst(spec()));  // such plans update on the host
  UpdateArguments arguments = {.planes = PlanesOf(tile, tile.parameters),
                               .constants = ConstantsOf(scalars, true),
                               .largest_unstorable_bits = largest_magnitude};
  const auto launch = [&] {
    return LaunchStatus("updating tiles", LaunchUpdate(native_stream, kind(), arguments));
  };
  const std::vector<UpdatePiece> pieces = PiecesOf(tile);
  for (size_t i = 0; i < pieces.size();) {
    // A launch starts where the previous one ended, or at the tile's start, and takes as many
    // pieces as fit, the last of them perhaps in part.
    const uint32_t begin = arguments.end;
    arguments.begin = begin;
    arguments.first_decays = pieces[i].constants != 0;
    arguments.boundary_count = 0;
    int constants = pieces[i].constants;
    uint64_t end = pieces[i].end;
    while (++i < pieces.size()) {
      if (pieces[i].constants != constants) {
        if (arguments.boundary_count == kUpdateBoundaries) break;
        arguments.boundaries[arguments.boundary_count++] = static_cast<uint32_t>(pieces[i].begin);
        constants = pieces[i].constants;
      }
      end = pieces[i].end;
    }
    if (arguments.planes.scales1 != nullptr && i < pieces.size()) {
      // The next launch starts with a block of moments.
      end -= end % kMomentBlock;
      while (i > 0 && pieces[i - 1].end > end) --i;
      SPILLWAY_CHECK(end > begin);
    }
    arguments.end = static_cast<uint32_t>(end);
    RETURN_IF_ERROR(launch());
  }
  return absl::OkStatus();
}

}  // namespace spillway
