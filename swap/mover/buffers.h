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
// On a separate device "filled" and "released" mean that the copy, or the last use, has been put
// into one of the streams; the next buffer at these addresses waits there.
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

// All tiles of a unit in order, but those in `first` (ascending) before the others.
std::vector<int> TileOrder(const std::vector<int>& first, int num_tiles);

// A program in the line of all programs, over which operations are numbered consecutively.
struct QueuedProgram {
  Program kind = Program::kTrain;
  int64_t first_op = 0;
  int num_ops = 0;
  int64_t version = 0;  // of the state that it reads: the number of training programs before it
  FirstRead first_read = {};
};

enum class BufferUse : uint8_t {
  kWeights,
  kSums,         // the sums of a gradient
  kSavedInput,   // what a forward leaves to be written
  kLoadedInput,  // the same, read again for the backward
  kTurnTiles,    // tile buffers between two steps (swap/mover/tile_buffers.h)
};

// A buffer goes through these states in the order of their numbers, and leaves some out
// (kNext in swap/mover/buffers.cc).
enum class BufferState : uint8_t {
  kWaiting,       // other buffers have its addresses, or may have them
  kAllocated,     // the addresses are its own; nothing has been put there yet
  kFetching,      // reads are under way
  kTakingUpdate,  // an update puts the new weights here tile by tile
  kReady,         // operations may use it
  kWriting,       // a saved input is on its way to the store
  kReleased,      // later buffers may have the addresses
};

class InPlaceRead;
class Prefetch;
struct Buffer;

// One transfer of a buffer: a tile of its weights, or a piece of an input. Its address does not
// change while it is under way.
struct BufferTransfer {
  Prefetch* prefetch = nullptr;
  Buffer* buffer = nullptr;
  int piece = 0;
  uint64_t checksum = 0;            // of what is written
  int stage = -1;                   // host memory that a separate device's weights pass through
  InPlaceRead* in_place = nullptr;  // the read of a tile that lies in the model's files
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
  bool abandoned = false;
  bool feeds_update = false;  // an update takes the weights from it, and releases it
  bool takes_over = false;    // has the addresses of the step before's buffer that feeds the update
  std::vector<BufferTransfer> transfers;
  int transfers_left = 0;
  int turn_stay = 0;  // kTurnTiles: which of the plan's turn_stays

  // On a separate device:
  std::vector<DeviceEvent> waits;  // the last uses of the addresses, until their first use here
  bool used = false;
  size_t next_transfer = 0;  // the first that has no stage yet
  DeviceEvent filled;        // all of its weights are there
  DeviceEvent last_use;      // its last op is done

  BufferState state() const { return state_; }
  // The only way to change the state. REQUIRES: a buffer of this use goes from its state to `next`.
  void Become(BufferState next);

 private:
  BufferState state_ = BufferState::kWaiting;
};

// The mover's thread.
class Buffers {
 public:
  explicit Buffers(const MoverContext& context);

  // --- The line of buffers.
  void Add(const QueuedProgram& program);
  // Gives up the buffers of the last program, none of whose operations has begun. A buffer that is
  // being filled is released when its filling has ended.
  void Abandon(const QueuedProgram& program);
  // No operation comes any more: buffers that wait for addresses get none.
  void AbandonWaiting();
  // Gives addresses to all that can have them before operation `next_op`. `open_turn` decides
  // that for tile buffers between two steps, and sets their state.
  void Allocate(int64_t next_op, const std::function<void(Buffer&)>& open_turn);
  // The buffers that have addresses, or may get them soon, by first operation. Some are released.
  const std::deque<std::unique_ptr<Buffer>>& near() const { return near_; }
  // The buffer that the operation uses. REQUIRES: the plan has one, and it is in near().
  Buffer& Find(BufferUse use, int unit, int64_t op) const;
  // The buffer into which the update that makes `version` of the unit puts the new weights, and
  // where the next program reads them. Null while that buffer has no addresses.
  Buffer* FindDestination(int unit, int64_t version) const;
  void Release(Buffer& buffer);

  // --- A separate device's addresses.
  bool OnDevice(const Buffer& buffer) const {
    return context_.lane->separate_device() && buffer.span.tier == Tier::kDevice;
  }
  // The next work put into `stream` is the first to use the buffer's addresses: lets the stream
  // wait for their last uses. REQUIRES: the buffer has addresses.
  void WaitForAddresses(Buffer& buffer, StreamId stream);

  // --- Versions.
  // The version that is complete where the unit lives, in memory or the store.
  int64_t settled(int unit) const { return settled_[unit]; }
  // Whether that is `version`; a frozen unit's state is every version.
  bool Holds(int unit, int64_t version) const {
    return context_.layout.frozen(unit) || settled_[unit] == version;
  }
  const std::vector<int64_t>& settled() const { return settled_; }
  // REQUIRES: the unit is trained, and `version` follows the one that was settled.
  void Settle(int unit, int64_t version);
  // The unit's input in the store is now that of the program which reads `version`. REQUIRES: no
  // later program's input was saved before.
  void SaveInput(int unit, int64_t version);
  // The tiles of the unit that the enqueued program which reads `version` begins with; null: it
  // begins with all of them.
  const std::vector<int>* FirstTiles(int unit, int64_t version) const;
  // Whether the buffer's contents are complete where they live, so that they can be fetched. If
  // not, the update that is still to come fills the buffer, or they are fetched after it.
  bool CanFetch(const Buffer& buffer) const;

 private:
  bool AddressesFree(size_t index) const;
  void LeaveAddresses(Buffer& buffer);

  const MoverContext& context_;
  const SwapPlan& plan_ = context_.plan;
  int most_lead_ops_ = 0;
  std::deque<std::unique_ptr<Buffer>> near_;    // by first op, with all that have addresses
  std::deque<std::unique_ptr<Buffer>> coming_;  // by first op: none may have addresses yet
  std::vector<int64_t> settled_;                // [unit]
  std::vector<int64_t> saved_;                  // [unit] -1: none yet
  std::map<int64_t, FirstRead> first_reads_;    // [version]
  AddressUses uses_;
};

}  // namespace spillway
