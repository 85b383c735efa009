// Host memory that tiles pass through: the plan's own tile buffers, and further ones at the turn
// between two steps.
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

  // Has: whether a tile buffer is free for the tile. Take: its number. `at_turn`: the tile is one
  // of the update at the turn, which may use the buffers of the turn, too, and has those into which
  // its tiles were read ahead. REQUIRES: Has, for Take.
  bool Has(bool at_turn, int tile) const;
  int Take(bool at_turn, int tile);
  void Return(int tile_buffer);
  char* Address(int tile_buffer) const { return context_.Address(spans_[tile_buffer]); }
  // Points `planes` at each plane of a tile in the host's memory: in its home or in the tile
  // buffer. If tile_buffer is -1, planes that live elsewhere stay null.
  void PointAtPlanes(int unit, int tile, int tile_buffer, std::vector<char*>& planes) const;

  // --- The turn between two steps.
  // The buffer has its addresses: its tile buffers can be used, unless tile buffers of the turn
  // before are still in use.
  void OpenTurn(Buffer& buffer);
  // Reads tiles of the update that ends `running`'s step ahead, before its gradient is complete, as
  // long as there are buffers. Tiles that the next program begins with go first, if they are known.
  void ReadAhead(const QueuedProgram& running);
  // Whether the tile was, or is being, read ahead. If so, calls `then(context)` when it has come.
  bool AwaitReadAhead(int tile, void (*then)(void* context), void* context);
  // Every tile of the update that makes `version` has begun: releases the memory as its tiles end.
  void CloseTurn(int64_t version);

 private:
  struct AheadTile {
    TileBuffers* owner = nullptr;
    int tile_buffer = 0;
    bool read = false;
    void (*then)(void* context) = nullptr;
    void* context = nullptr;
    IoRequest request;
  };
  int FirstOf(int turn_stay) const;
  AheadTile* Ahead(int tile) const;
  void GiveBack();

  const MoverContext& context_;
  const SwapPlan& plan_ = context_.plan;
  const StateLayout& layout_ = context_.layout;
  Buffers* const buffers_;
  std::vector<ArenaSpan> spans_;  // by tile buffer: the plan's, then those at the turn
  std::vector<int> free_;
  std::vector<Buffer*> open_;  // by the plan's turn_stays; null where one has no addresses now
  std::vector<int> free_at_turn_;
  std::vector<std::unique_ptr<AheadTile>> ahead_;
  std::vector<int> ahead_order_;  // the order in which tiles are read ahead
  std::vector<int> ahead_of_;     // [tile] position in ahead_; -1: it was not read ahead
  int64_t version_ = 0;           // of the update that the memory is for
  int64_t begun_version_ = 0;     // of the last update all of whose tiles have begun
};

}  // namespace spillway
