// Host memory that tiles pass through: the plan's own tile buffers, and those at the boundary of
// two steps.
//
// The update of the unit whose gradient is complete last (of a language model: the embedding)
// stands alone between this step's backward and the next one's forward, and nothing else is left
// to compute beside it. So its tiles are read while the last operations of the backward still
// compute, into memory that is idle there; and as those buffers also hold tiles that wait to be
// written, the reads go before the writes.
#pragma once

#include <memory>
#include <vector>

#include "swap/mover/buffers.h"
#include "swap/mover/mover_context.h"

namespace spillway {

// The mover's thread. A tile takes a buffer when it begins and gives it back when it ends. A read
// ahead that fails is the mover's failure.
class TileBuffers {
 public:
  TileBuffers(const MoverContext& context, Buffers* buffers);

  // Whether a buffer is there for a tile, and its number. `at_boundary`: the tile is of the update
  // between two steps, which may have those buffers, too, and those that were read ahead for it.
  bool Has(bool at_boundary, int tile) const;
  int Take(bool at_boundary, int tile);
  void Return(int tile_buffer);
  char* Address(int tile_buffer) const { return context_.Address(spans_[tile_buffer]); }
  // Where each plane of a tile is in the host's memory: in its home or the tile buffer (-1: it has
  // none, and what lives elsewhere is left out).
  void PointAtPlanes(int unit, int tile, int tile_buffer, std::vector<char*>& planes) const;

  // --- The boundary of two steps.
  // The buffer has its addresses: its tile buffers can be used, once those of the step before have
  // been given back.
  void OpenBoundary(Buffer& buffer);
  // Reads tiles of the update that ends `running`'s step, before its gradient is complete, as long
  // as there are buffers: those that the next program begins with go first, where it is known.
  void ReadAhead(const QueuedProgram& running);
  // Whether the tile was, or is being, read ahead. Then `then(context)` is called when it is there.
  bool AwaitReadAhead(int tile, void (*then)(void* context), void* context);
  // Every tile of the update that makes `version` has begun: the memory is given back as its tiles
  // end.
  void CloseBoundary(int64_t version);

 private:
  struct AheadTile {
    TileBuffers* owner = nullptr;
    int tile_buffer = 0;
    bool read = false;
    void (*then)(void* context) = nullptr;
    void* context = nullptr;
    IoRequest request;
  };
  int FirstOf(int boundary) const;
  AheadTile* Ahead(int tile) const;
  void GiveBack();

  const MoverContext& context_;
  const SwapPlan& plan_ = context_.plan;
  const StateLayout& layout_ = context_.layout;
  Buffers* const buffers_;
  std::vector<ArenaSpan> spans_;  // by tile buffer: the plan's, then those at the boundary
  std::vector<int> free_;
  std::vector<Buffer*> open_;  // by the plan's turn_stays; null where it has no memory
  std::vector<int> free_at_boundary_;
  std::vector<std::unique_ptr<AheadTile>> ahead_;
  std::vector<int> ahead_order_;  // in which tiles are read ahead
  std::vector<int> ahead_of_;     // [tile] where in ahead_; -1: it has not been read ahead
  int64_t version_ = 0;           // of the update that the memory is for
  int64_t begun_version_ = 0;     // of the last update all of whose tiles have begun
};

}  // namespace spillway
