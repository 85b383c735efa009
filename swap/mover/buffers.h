// Buffers with an address and a lifetime in operations, and which version of the state is where.
//
// The plan gives every buffer its address (weights, gradient sums, inputs that left the device,
// tile buffers between two steps). A program's buffers stand in line by their first operation; one
// gets its addresses when every earlier one that overlaps them has been released, and is then
// filled, used and released by the classes above this one.
//
// Every training step gives a unit's state a new version. A program reads the version of the
// training step before it, so what is fetched for it waits until that one stands in its place.
//
// On a discrete device "filled" and "released" mean that the copy, or the last use, has been put
// into one of the streams; who has the addresses next waits there.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "io/io_engine.h"
#include "swap/device/address_uses.h"
#include "swap/mover/mover_context.h"
#include "swap/mover/swap_types.h"

namespace spillway {

// All tiles of a unit, `first` (ascending) before the others.
std::vector<int> TileOrder(const std::vector<int>& first, int num_tiles);

// A program in the line of all. Operations are counted without an end, over all programs.
struct QueuedProgram {
  Program kind = Program::kTrain;
  int64_t first_op = 0;
  int num_ops = 0;
  int64_t version = 0;  // of the state that it reads: training programs before it
  FirstRead first_read = {};
};

enum class BufferUse : uint8_t {
  kWeights,
  kSums,           // the sums of a gradient
  kSavedInput,     // what a forward leaves to be written
  kLoadedInput,    // the same, read again for the backward
  kBoundaryTiles,  // tile buffers between two steps (swap/mover/tile_buffers.h)
};

enum class BufferState : uint8_t {
  kWaiting,       // its addresses are, or may be, another's
  kAllocated,     // its own, not filled yet
  kFetching,      // reads are under way
  kTakingUpdate,  // an update puts the new weights here tile by tile
  kReady,
  kWriting,
  kReleased,
};

class InPlaceRead;
class Prefetch;
struct Buffer;

// One transfer of a buffer: a tile of its weights, or a piece of an input. In place while it is
// under way.
struct BufferTransfer {
  Prefetch* prefetch = nullptr;
  Buffer* buffer = nullptr;
  int piece = 0;
  uint64_t checksum = 0;            // of what is written
  int stage = -1;                   // that a discrete device's weights pass through
  InPlaceRead* in_place = nullptr;  // what brings a tile from the model's files
  absl::Status status;
  IoRequest request;
};

struct Buffer {
  BufferUse use = BufferUse::kWeights;
  int unit = 0;
  int64_t first_op = 0;
  int64_t last_op = 0;
  int lead_ops = 0;
  int64_t version = 0;  // of the state that it holds
  ArenaSpan span;
  BufferState state = BufferState::kWaiting;
  bool abandoned = false;
  bool feeds_update = false;  // which releases it
  bool takes_over = false;    // from such a buffer of the step before, in place
  std::vector<BufferTransfer> transfers;
  int transfers_left = 0;
  int boundary = 0;  // kBoundaryTiles: which of the plan's turn_stays

  // On a discrete device.
  std::vector<DeviceEvent> waits;  // of who had the addresses before, until they are first used
  bool used = false;
  size_t next_transfer = 0;  // to be staged
  DeviceEvent filled;        // all of its weights are there
  DeviceEvent last_use;      // its last op is done
};

// The mover's thread.
class Buffers {
 public:
  explicit Buffers(const MoverContext& context);

  // --- The line of buffers.
  void Add(const QueuedProgram& program);
  // Gives up the buffers of the last program, none of whose operations has begun. One that is
  // being filled is released when that has ended.
  void Abandon(const QueuedProgram& program);
  // No operation comes any more: what waits for addresses gets none.
  void AbandonWaiting();
  // Gives addresses to all that can have them before operation `next_op`. `open_boundary` decides
  // that for tile buffers between two steps, and sets their state.
  void Allocate(int64_t next_op, const std::function<void(Buffer&)>& open_boundary);
  // By first operation: those that have addresses, or are near to having them. Some are released.
  const std::deque<std::unique_ptr<Buffer>>& near() const { return near_; }
  // REQUIRES: the operation uses the unit so; the plan has a buffer for that.
  Buffer& Find(BufferUse use, int unit, int64_t op) const;
  // Where the update that makes `version` of the unit puts the new weights: the buffer that the
  // next program reads them in. Null while that one has no addresses.
  Buffer* FindDestination(int unit, int64_t version) const;
  void Release(Buffer& buffer);

  // --- A discrete device's addresses.
  bool OnDevice(const Buffer& buffer) const {
    return context_.lane->discrete() && buffer.span.tier == Tier::kDevice;
  }
  // The first in `stream` to use the buffer's addresses is what comes next.
  void WaitForAddresses(Buffer& buffer, StreamId stream);

  // --- Versions.
  // What the unit's place, in memory or the store, holds.
  int64_t settled(int unit) const { return settled_[unit]; }
  // A frozen one's is every version.
  bool Holds(int unit, int64_t version) const {
    return context_.layout.frozen(unit) || settled_[unit] == version;
  }
  const std::vector<int64_t>& settled() const { return settled_; }
  void Settle(int unit, int64_t version) { settled_[unit] = version; }
  // The unit's input in the store is that of the program which reads `version`.
  void SaveInput(int unit, int64_t version) { saved_[unit] = version; }
  // Those tiles of the unit's that the program which reads `version` begins with, while that is
  // enqueued; null: it begins with all of them.
  const std::vector<int>* FirstTiles(int unit, int64_t version) const;
  // Whether what the buffer shall hold is in its place. Other weights are filled by the update
  // that is still to come, or fetched after it.
  bool CanFetch(const Buffer& buffer) const;

 private:
  bool AddressesFree(size_t index) const;
  void LeaveAddresses(Buffer& buffer);

  const MoverContext& context_;
  const SwapPlan& plan_ = context_.plan;
  int most_lead_ops_ = 0;
  std::deque<std::unique_ptr<Buffer>> near_;    // by first op, with all that have addresses
  std::deque<std::unique_ptr<Buffer>> coming_;  // by first op: none of them can have them yet
  std::vector<int64_t> settled_;                // [unit]
  std::vector<int64_t> saved_;                  // [unit] -1: none yet
  std::map<int64_t, FirstRead> first_reads_;    // [version]
  AddressUses uses_;
};

}  // namespace spillway
