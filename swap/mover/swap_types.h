// What a swap manager is made with, what it lends to an operation, and what it counts.
// Plain values.
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

// What the first operation of a program reads of a unit, where that is a part of it: these tiles,
// ascending. An embedding looks up the rows of its tokens. By default it reads all that it uses.
struct FirstRead {
  int unit = -1;
  std::vector<int> tiles = {};

  friend bool operator==(const FirstRead&, const FirstRead&) = default;
};

// Memory that an op may use until its EndOp: of a discrete device, in its compute stream. The
// inputs' memory is the host's all the same.
struct OpBuffers {
  const StepOp* op = nullptr;
  int index = 0;                 // of the op in the schedule
  std::vector<char*> weights;    // by position in op->weights: the unit's flat weights
  std::vector<char*> gradients;  // by position in op->gradients: the unit's flat sums
  // No op of this step has written to these sums yet: their contents are undefined.
  std::vector<bool> fresh;
  // They are in the run's dtype, not fp32, and take two terms at most. Empty: none are.
  std::vector<bool> rounded;
  bool Rounded(size_t i) const { return i < rounded.size() && rounded[i]; }
  // Of a unit whose activations leave the device: where a training forward puts its inputs,
  // and where its backward finds them. Null: they stay with whoever computes.
  char* inputs = nullptr;
  uint64_t inputs_bytes = 0;
};

struct GradientTotal {
  double sum_of_squares = 0;  // of the rounded gradients, before any scale
  bool finite = true;
};

// Fills, or looks at, one tile of the state.
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
  // Of a discrete device, as its streams tell (swap/device/device_times.h): the copies of the
  // mover's by direction, how long any of them was under way, how long it rounded and updated, how
  // long operations computed, and how long they waited for copies. The stalls above are then times
  // in which it had nothing to compute, and update_busy_seconds are those of the workers alone.
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
  // The plan's discrete device, which outlives the manager; null where it has none. Then the
  // device arena is that device's memory, and the host's is registered with it.
  Device* device = nullptr;
  // Of a discrete device, the stream in which operations are. kCompute: whoever takes them computes
  // in them, and what it waits for is in io.trace. kExchange: that is no compute.
  StreamId ops_stream = StreamId::kCompute;
};

// How others are told that a commit is durable here, or why not; what comes back decides. With
// *only_lost (then, and when it returns) a failed commit is lost, and nothing else.
using PublishCommitHere = std::function<absl::Status(absl::Status made, bool* only_lost)>;

}  // namespace spillway
