// Pass: a walk over the tiles of one unit. TileJob: one of its tiles under way. Plain values, used
// on the mover's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "swap/device/tile_compute.h"
#include "swap/mover/buffers.h"

namespace spillway {

enum class PassKind : uint8_t {
  kRound,       // rounds a complete gradient
  kMeasure,     // shows gradient and state to TileCompute::Measure
  kUpdate,      // read, arithmetic, write
  kInitialize,  // the first state
  kSave,        // writes what only lives in memory, for a commit
};

// The name in a trace of a pass's work on a tile.
SpanKind SpanKindOf(PassKind kind);

struct Pass {
  int64_t number = 0;  // in order of start
  PassKind kind = PassKind::kUpdate;
  int unit = 0;
  int64_t version = 0;      // that it makes; kRound: the one that the gradient's program has read
  uint64_t generation = 0;  // under which it writes
  UpdateScalars scalars;
  int measure = 0;                 // kMeasure: its number among the step's
  const FillTile* fill = nullptr;  // kInitialize
  Buffer* sums = nullptr;          // the complete gradient; null for a deferred update
  Buffer* weights = nullptr;       // where an immediate update takes them from; null: the store
  Buffer* destination = nullptr;   // the next forward's buffer, which takes the new weights
  DeviceEvent sums_complete;       // on a separate device

  // Set by Route, from the plan:
  int num_tiles = -1;
  bool gradient_alone = false;     // kMeasure looks at the gradient and not at the state
  bool deferred = false;           // an update whose gradient has waited for it
  bool on_device = false;          // the separate device updates state that lives there
  bool streamed = false;           // the separate device updates state that lives elsewhere
  bool at_turn = false;            // the update between two steps
  bool needs_tile_buffer = false;  // for every tile

  bool begun = false;
  bool fills_forward = false;  // a forward waits for it: its reads go before other passes'
  std::vector<int> order;      // of its tiles; empty: ascending
  int next_tile = 0;           // position in that order of the next tile to begin
  int first_tiles = 0;       // so many tiles are all that the next forward begins with; 0: all are
  int first_left = 0;        // those of them whose new values are not in memory yet
  bool fills_first = false;  // only these first tiles go to the destination
  bool goes_last = false;    // the remaining tiles go behind all other updates
  int tiles_streamed = 0;    // tiles that were put into a separate device's streams
  int tiles_computed = 0;    // tiles whose new values are in memory
  int tiles_done = 0;        // tiles whose new values are where they live

  bool updates() const { return kind == PassKind::kUpdate; }
  // Whether the pass reads the rounded gradient, and whether it reads the state, too.
  bool reads_gradient() const { return updates() || kind == PassKind::kMeasure; }
  bool reads_state() const { return reads_gradient() && !gradient_alone; }
  bool all_begun() const { return next_tile == num_tiles; }
  int NextTile() const { return order.empty() ? next_tile : order[next_tile]; }
  bool NextIsFirst() const { return next_tile < first_tiles; }
  // Whether the forward behind it needs other units before the remaining tiles.
  bool MayGoLast() const { return first_tiles > 0 && next_tile == first_tiles; }
  // The next forward begins with these tiles, so they go first. REQUIRES: no tile has begun.
  void BeginWith(const std::vector<int>& tiles);
  // Fills in what follows from the plan. REQUIRES: kind, unit, scalars and sums are set; a frozen
  // unit is only initialized and saved.
  void Route(const MoverContext& context);
};

// The statistics that a separate device collects of the tile that it works on.
struct TileStatistics {
  GradientPartial partial;
  uint32_t largest_magnitude = 0;  // TileCompute::UpdateOnDevice
};

class TileWork;

// The work on one tile of a pass: taken when the tile begins and given back when it ends, whether
// it succeeded or failed. It owns its tile buffer. Its address does not change, since transfers and
// workers point to it.
struct TileJob {
  TileJob() = default;
  TileJob(TileJob&&) = default;
  TileJob& operator=(TileJob&&) = default;

  TileWork* work = nullptr;
  Pass* pass = nullptr;
  int tile = 0;
  bool first = false;  // the next forward begins with it
  int tile_buffer = -1;
  std::vector<char*> planes;
  char* gradient = nullptr;  // rounded
  char* sums = nullptr;
  const char* weights = nullptr;  // in memory, not yet in `planes`
  char* destination = nullptr;    // of the new weights
  int transfers_left = 0;
  absl::Status status;
  GradientPartial partial;
  std::vector<uint64_t> checksums;  // of the planes in the store
  uint64_t gradient_checksum = 0;
  IoRequest state_request;
  IoRequest gradient_request;
  std::vector<int> saved_planes;
  std::vector<IoRequest> save_requests;

  // On a separate device:
  int device_tile = -1;  // of a streamed update
  int statistics_slot = -1;
  const TileStatistics* statistics = nullptr;  // valid once the work on the tile is done

  // Makes the job that of a new tile; its lists keep their memory.
  void Reset(Pass* of, int number);
};

TileView ViewOf(const MoverContext& context, const TileJob& job);

}  // namespace spillway
