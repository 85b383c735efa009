// The plain values of a swap manager's interface: its options, the memory that it lends to an
// operation, and its counters.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "io/io_engine.h"
#include "swap/device/device.h"
#include "swap/device/device_times.h"
#include "swap/device/tile_compute.h"
#include "swap/mover/executor.h"
#include "swap/plan/step_schedule.h"

namespace spillway {

enum class Program : uint8_t {
  kTrain,     // the whole schedule
  kEvaluate,  // its operations up to and with the loss, without gradients
};

// The tiles, ascending, that the first operation of a program reads of one unit, where it reads a
// part of the unit: an embedding looks up the rows of its tokens. By default (unit -1) the
// operation reads all of every unit that it uses.
struct FirstRead {
  int unit = -1;
  std::vector<int> tiles = {};

  friend bool operator==(const FirstRead&, const FirstRead&) = default;
};

// Memory that an op may use until its EndOp; on a separate device, in the compute stream. The
// inputs' memory is always the host's.
struct OpBuffers {
  const StepOp* op = nullptr;
  int index = 0;                 // of the op in the schedule
  std::vector<char*> weights;    // by position in op->weights: the unit's flat weights
  std::vector<char*> gradients;  // by position in op->gradients: the unit's flat sums
  // No op of this step has written to these sums yet: their contents are undefined.
  std::vector<bool> fresh;
  // By position in op->gradients: the sums are in the run's dtype, not fp32, and take two terms at
  // most. Empty: none are.
  std::vector<bool> rounded;
  bool Rounded(size_t i) const { return i < rounded.size() && rounded[i]; }
  // Where a training forward puts its inputs and its backward finds them, for a unit whose
  // activations leave the device. Null: they stay with the compute side.
  char* inputs = nullptr;
  uint64_t inputs_bytes = 0;
};

struct GradientTotal {
  double sum_of_squares = 0;  // of the rounded gradients, before any scale
  bool finite = true;
};

// A function that fills, or reads, one tile of the state.
using FillTile = std::function<absl::Status(const TileView& tile)>;

// Counters since the start; differences make a step's row.
struct SwapStats {
  IoStats io;
  double update_busy_seconds = 0;
  double stall_disk_seconds = 0;    // compute waited for storage
  double stall_update_seconds = 0;  // compute waited for rounding or the optimizer
  double stall_commit_seconds = 0;  // compute waited while a commit held back updates
  uint64_t tiles_updated = 0;
  uint64_t update_filled_bytes = 0;  // weights that went from an update into a forward
  uint64_t to_device_bytes = 0;      // copied to a device with memory of its own
  uint64_t to_host_bytes = 0;        // and from there
  // Measured in the streams of a separate device (swap/device/device_times.h): the mover's copies
  // by direction, how long any of them was under way, how long the device rounded and updated, how
  // long operations computed, and how long they waited for copies. On such a device the stalls
  // above are times in which it had nothing to compute, and update_busy_seconds counts the workers
  // alone.
  CopyTime copies_to_device;
  CopyTime copies_to_host;
  double copy_busy_seconds = 0;
  double device_update_seconds = 0;
  double compute_busy_seconds = 0;
  double stall_copy_seconds = 0;
};

struct SwapManagerOptions {
  IoEngineOptions io;
  int workers = 2;
  // Memory for reading what lies in the model's files; where the store has any of that, one read
  // takes what it needs in any case (InPlaceReads::MemoryBytes).
  uint64_t in_place_bytes = uint64_t{8} << 20;
  // No threads: see swap/mover/executor.h. REQUIRES then: a store, whose engine waits for the
  // executor's jobs.
  Executor* executor = nullptr;
  // The plan's separate device, which outlives the manager; null where it has none. Then the
  // device arena is that device's memory, and the host's is registered with it.
  Device* device = nullptr;
  // The stream of a separate device that operations are put into. kCompute: operations are
  // computations, and their waits are recorded in io.trace. kExchange: they are exchanges with
  // other ranks.
  StreamId ops_stream = StreamId::kCompute;
};

// Tells the other ranks that a commit is durable here, or why it is not; the returned status
// decides whether it counts. *only_lost, on the way in and out: a failed commit is lost, and the
// run goes on.
using PublishCommitHere = std::function<absl::Status(absl::Status made, bool* only_lost)>;

}  // namespace spillway
