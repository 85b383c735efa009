// The state while nothing else moves: brought into memory at the start, and read out.
#pragma once

#include <vector>

#include "swap/mover/device_tiles.h"
#include "swap/mover/mover_context.h"
#include "swap/mover/tile_buffers.h"

namespace spillway {

// The mover's thread, which these block until all transfers have ended. REQUIRES: everything is at
// rest. What fails, or comes back as other bytes than were written, is the status.
class StateAtRest {
 public:
  StateAtRest(const MoverContext& context, const TileBuffers* tile_buffers,
              DeviceTiles* device_tiles)
      : context_(context), tile_buffers_(tile_buffers), device_tiles_(device_tiles) {}

  // Brings what lives in memory from the store.
  absl::Status LoadResident();
  // Points `planes` [first, last) at one tile's state, read into a tile buffer where it lives
  // elsewhere than in the host's memory.
  absl::Status ReadTile(int unit, int tile, int first_plane, int last_plane,
                        std::vector<char*>& planes);

 private:
  struct Piece {
    int tile = 0;
    int plane = 0;
    char* data = nullptr;
  };
  absl::Status Read(int unit, const std::vector<Piece>& pieces);

  const MoverContext& context_;
  const StateLayout& layout_ = context_.layout;
  const SwapPlan& plan_ = context_.plan;
  const TileBuffers* const tile_buffers_;
  DeviceTiles* const device_tiles_;
};

}  // namespace spillway
