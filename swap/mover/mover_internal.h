// The mover's bookkeeping: one stay in memory, one pass over a unit's tiles.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "swap/mover/mover.h"

namespace spillway {

// What a stay holds.
enum class StayUse : uint8_t {
  kWeights,
  kSums,         // the sums of a gradient
  kSavedInput,   // what a forward leaves to be written
  kLoadedInput,  // the same, read again for the backward
  kTurnTiles,    // tile buffers at the turn of two steps
};

enum class StayState : uint8_t {
  kWaiting,       // its addresses are, or may be, another's
  kAllocated,     // its own, not filled yet
  kFetching,      // reads are under way
  kTakingUpdate,  // an update puts the new weights here tile by tile
  kReady,
  kWriting,
  kReleased,
};

// One transfer of a stay: a tile of its weights, or a piece of an input.
struct SwapManager::Mover::Fetch {
  Mover* mover = nullptr;
  Stay* stay = nullptr;
  int tile = 0;
  uint64_t checksum = 0;  // of what is written
  int stage = -1;         // that a separate device's weights pass through
  IoRequest request;
};

struct SwapManager::Mover::Stay {
  StayUse use = StayUse::kWeights;
  int unit = 0;
  int64_t first_op = 0;  // in the endless line of ops
  int64_t last_op = 0;
  int lead_ops = 0;
  int64_t version = 0;  // of the state that it holds
  ArenaSpan span;
  StayState state = StayState::kWaiting;
  bool abandoned = false;
  bool feeds_update = false;   // which releases it
  bool takes_over = false;     // from such a stay of the step before, in place
  std::vector<Fetch> fetches;  // in place while transfers are under way
  int fetches_left = 0;
  int turn_stay = 0;  // kTurnTiles: which of the plan's

  // On a separate device.
  std::vector<DeviceEvent> waits;  // of who had the addresses before, until they are first used
  bool used = false;
  size_t next_fetch = 0;  // to be staged
  DeviceEvent filled;     // all of its weights are there
  DeviceEvent last_use;   // its last op is done
};

enum class PassKind : uint8_t {
  kRound,
  kUpdate,
  kInitialize,
  kSave,  // writes what only lives in memory, for a commit
};

// What its work on a tile is called in a trace.
SpanKind SpanKindOf(PassKind kind);

// The wait of an operation that ends now.
void RecordWait(Trace* trace, const StepOp& op, SpanKind waited_for, double began_seconds);

struct SwapManager::Mover::Pass {
  PassKind kind = PassKind::kUpdate;
  int unit = 0;
  int64_t version = 0;          // that it produces
  Stay* sums = nullptr;         // the complete gradient; null for a deferred update
  Stay* weights = nullptr;      // where an immediate update takes them from; null: the store
  Stay* destination = nullptr;  // the next forward's stay, which takes the new weights
  DeviceEvent sums_complete;    // on a separate device
  UpdateScalars scalars;
  bool begun = false;
  int next_tile = 0;
  int tiles_streamed = 0;  // put into a separate device's streams
  int tiles_computed = 0;
  int tiles_done = 0;  // computed and, where they live in the store, written
};

// One tile of a pass under way. Lives from start to done; owns its tile buffer.
struct SwapManager::Mover::TileTask {
  Mover* mover = nullptr;
  Pass* pass = nullptr;
  int tile = 0;
  int tile_buffer = -1;
  std::vector<char*> planes;
  char* gradient = nullptr;  // rounded
  char* sums = nullptr;
  const char* weights = nullptr;  // in memory, not yet in `planes`
  char* destination = nullptr;    // of the new weights
  int partial_slot = -1;          // a separate device's
  int device_tile = -1;           // likewise, of a streamed update
  int transfers_left = 0;
  absl::Status status;
  GradientPartial partial;
  std::vector<uint64_t> checksums;  // of the planes in the store
  uint64_t gradient_checksum = 0;
  uint64_t generation = 0;
  IoRequest state_request;
  IoRequest gradient_request;
  std::vector<int> saved_planes;
  std::vector<IoRequest> save_requests;
};

// What a separate device learns of the tile that it works on.
struct SwapManager::Mover::LearnedOfTile {
  GradientPartial partial;
  uint32_t largest_magnitude = 0;  // TileCompute::UpdateOnDevice
};

// A tile of the update at the turn that is read before its gradient is complete.
struct SwapManager::Mover::TileAhead {
  Mover* mover = nullptr;
  int tile_buffer = 0;
  bool read = false;
  TileTask* task = nullptr;  // which waits for it
  IoRequest request;
};

enum class CommitPhase : uint8_t {
  kUpdating,  // updates that it holds are under way
  kSaving,    // as are passes of kSave
  kSyncing,   // the commit thread waits for the disk
};

struct SwapManager::Mover::CommitRun {
  std::string manifest_path;
  CommitRecord record;
  int64_t version = 0;  // of the state that it holds
  std::function<void()> at_end;
  std::function<absl::Status()> publish;
  CommitPhase phase = CommitPhase::kUpdating;
};

}  // namespace spillway
