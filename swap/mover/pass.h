// A walk over the tiles of one unit, and one of its tiles under way. Plain values, the mover's.
#pragma once

#include <cstdint>
#include <vector>

#include "swap/device/tile_compute.h"
#include "swap/mover/buffers.h"

namespace spillway {

enum class PassKind : uint8_t {
  kRound,       // rounds a complete gradient
  kMeasure,     // looked at
  kUpdate,      // read, arithmetic, write
  kInitialize,  // the first state
  kSave,        // writes what only lives in memory, for a commit
};

// What a pass's work on a tile is called in a trace.
SpanKind SpanKindOf(PassKind kind);

struct Pass {
  int64_t number = 0;  // in order of start
  PassKind kind = PassKind::kUpdate;
  int unit = 0;
  int64_t version = 0;      // that it produces; of kRound: that of the gradient's program
  uint64_t generation = 0;  // under which it writes
  UpdateScalars scalars;
  int measure = 0;                 // kMeasure: which one of the step's
  const FillTile* fill = nullptr;  // kInitialize
  Buffer* sums = nullptr;          // the complete gradient; null for a deferred update
  Buffer* weights = nullptr;       // where an immediate update takes them from; null: the store
  Buffer* destination = nullptr;   // the next forward's buffer, which takes the new weights
  DeviceEvent sums_complete;       // on a discrete device

  // What follows from the plan (Route).
  int num_tiles = 0;
  bool gradient_alone = false;     // is measured
  bool deferred = false;           // an update whose gradient has waited for it
  bool on_device = false;          // the discrete device updates what lives there
  bool staged = false;             // the same of what lives elsewhere, a tile at a time
  bool at_boundary = false;        // the update between two steps
  bool needs_tile_buffer = false;  // for every tile

  bool begun = false;
  bool fills_forward = false;  // a forward waits for it: its reads go before other passes'
  std::vector<int> order;      // of its tiles; empty: as they stand
  int next_tile = 0;           // in that order
  int first_tiles = 0;         // of it, that the next forward begins with; 0: with all
  int first_left = 0;          // of those: their new values are not in memory yet
  bool fills_first = false;    // its destination takes these alone
  bool goes_last = false;      // what is left of it goes behind all other updates
  int tiles_staged = 0;        // put into a discrete device's streams
  int tiles_computed = 0;      // their new values are in memory
  int tiles_done = 0;          // and where they live

  bool updates() const { return kind == PassKind::kUpdate; }
  // Whether the gradient that has waited is read, and whether the state with it.
  bool reads_gradient() const { return updates() || kind == PassKind::kMeasure; }
  bool reads_state() const { return reads_gradient() && !gradient_alone; }
  bool all_begun() const { return next_tile == num_tiles; }
  int NextTile() const { return order.empty() ? next_tile : order[next_tile]; }
  bool NextIsFirst() const { return next_tile < first_tiles; }
  // Whether the forward behind it needs other units before what is left.
  bool MayGoLast() const { return first_tiles > 0 && next_tile == first_tiles; }
  // The forward begins with these tiles. REQUIRES: none has begun.
  void BeginWith(const std::vector<int>& tiles);
  // Fills in what follows from the plan. REQUIRES: kind, unit, scalars and sums are there.
  void Route(const MoverContext& context);
};

// What a discrete device learns of the tile that it works on.
struct TileStatistics {
  GradientPartial partial;
  uint32_t largest_magnitude = 0;  // TileCompute::UpdateOnDevice
};

class TileWork;

// Taken when a tile begins and given back when it ends, good or bad. It owns its tile buffer and
// stays in place: transfers and workers point to it.
struct TileTask {
  TileTask() = default;
  TileTask(TileTask&&) = default;
  TileTask& operator=(TileTask&&) = default;

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

  // On a discrete device.
  int device_tile = -1;  // of a staged update
  int statistics_slot = -1;
  const TileStatistics* statistics = nullptr;  // there once the work on the tile is done

  // As new, but for memory that the last tile's lists have left.
  void Reset(Pass* of, int number);
};

TileView ViewOf(const MoverContext& context, const TileTask& task);

}  // namespace spillway
