// The state while nothing else moves: brought into memory at the start, and read out.
#pragma once

#include <vector>

#include "swap/mover/device_tiles.h"
#include "swap/mover/in_place_reads.h"
#include "swap/mover/mover_context.h"
#include "swap/mover/tile_buffers.h"

namespace spillway {

// The mover's thread, which each method blocks until all of its transfers have ended. A transfer
// that fails, or brings other bytes than were written, is the status. REQUIRES: no pass is under
// way; and for LoadResident no transfer either.
class StateAtRest {
 public:
  StateAtRest(const MoverContext& context, const TileBuffers* tile_buffers,
              DeviceTiles* device_tiles, InPlaceReads* in_place)
      : context_(context),
        tile_buffers_(tile_buffers),
        device_tiles_(device_tiles),
        in_place_(in_place) {}

  // Reads the state that lives in memory from the store; `only_in_place`: only the units that are
  // read in place.
  absl::Status LoadResident(bool only_in_place = false);
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
  absl::Status ReadInPlace(int unit, const std::vector<Piece>& pieces);

  const MoverContext& context_;
  const StateLayout& layout_ = context_.layout;
  const SwapPlan& plan_ = context_.plan;
  const TileBuffers* const tile_buffers_;
  DeviceTiles* const device_tiles_;
  InPlaceReads* const in_place_;
};

}  // namespace spillway
