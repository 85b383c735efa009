// What lives where, and which buffer holds it when: the plan of a run, as values.
//
// Every buffer has its address, given by its lifetime in the step (swap/plan/planner.h), so that at
// run time nothing is ever searched for, fragmented or "out of buffers": a buffer waits only until
// those that had its addresses before, in program order, have been released.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "swap/plan/plan_residency.h"
#include "swap/plan/state_layout.h"
#include "swap/plan/step_schedule.h"

namespace spillway {

absl::string_view TierName(Tier tier);

// What a device learns of a tile's gradient takes so much, and so many tiles may be under way on
// one with memory of its own.
inline constexpr uint64_t kPartialBytes = 64;
inline constexpr int kMaxDeviceTiles = 64;

// An allocator's blocks are a little larger than what was asked for.
inline constexpr uint64_t kActivationMargin = 16;

// Where a unit's planes live between their uses.
struct UnitPlacement {
  Tier weight = Tier::kNvme;
  Tier optimizer = Tier::kNvme;  // every plane but the weight
  Tier gradient = Tier::kHost;   // of a unit whose update is deferred

  // Planes [first, last) by index in the layout that live in the store.
  int first_nvme_plane = 0;
  int last_nvme_plane = 0;
  bool InStore(int plane) const { return first_nvme_plane <= plane && plane < last_nvme_plane; }
  Tier PlaneTier(int plane) const { return plane == 0 ? weight : optimizer; }
  bool any_nvme() const { return last_nvme_plane > first_nvme_plane; }
};

// An address in an arena.
struct ArenaSpan {
  Tier tier = Tier::kHost;  // kDevice or kHost
  uint64_t offset = 0;
  uint64_t bytes = 0;

  bool Overlaps(const ArenaSpan& other) const {
    return tier == other.tier && offset < other.offset + other.bytes &&
           other.offset < offset + bytes;
  }
};

// A stay of a unit's weights in memory: from the op that first reads them to the
// last op before they may be overwritten.
struct WeightStay {
  int unit = 0;
  int first_op = 0;
  int last_op = 0;
  // Filled by the update of the previous step as its tiles pass by, when there is
  // one, instead of a fetch of its own.
  bool filled_by_update = false;
  // Immediate: the unit's update takes the weights from here, and so holds them until it
  // has computed.
  bool feeds_update = false;
  // Its addresses are those of the step before's stay that fed the update, which changes the
  // weights where they are.
  bool takes_over = false;
  // How many operations before `first_op` the addresses are this stay's own.
  int lead_ops = 0;
  ArenaSpan span;
};

// A unit's spilled input in memory: after its forward, until it is written, or before its
// backward, read again.
struct ActivationStay {
  int unit = 0;
  int first_op = 0;
  int last_op = 0;
  bool loads = false;
  int lead_ops = 0;  // how many operations before `first_op` the addresses are its own
  ArenaSpan span;
};

// Tile buffers beside the plan's own in memory that is idle around the turn of two steps. There
// one update stands between a step's last gradient and the next one's first weights: its tiles
// are read ahead into these, and wait in them to be written.
struct TurnStay {
  int op = 0;  // the last of a step
  int lead_ops = 0;
  int tiles = 0;
  ArenaSpan span;  // of tile_buffer_bytes each
};

// The sums of a unit's gradient, in fp32 or rounded (SwapPlan::rounded_sums).
struct GradientStay {
  int unit = 0;
  int first_op = 0;
  int last_op = 0;
  ArenaSpan span;
};

// Bytes of one steady step.
struct StepTraffic {
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  // Copied to and from a device with memory of its own.
  uint64_t to_device_bytes = 0;
  uint64_t to_host_bytes = 0;
};

struct SwapPlan {
  StateLayout layout;
  StepSchedule schedule;
  std::vector<UnitPlacement> placements;  // [unit]

  // [unit] Its update waits for the next forward: all, where the schedule says so; where
  // updates are immediate those that fill the time in which a forward leaves the disk idle.
  std::vector<bool> deferred;
  // [unit] Its update takes the weights from the stay that the backward read them in.
  std::vector<bool> weight_at_hand;

  // The request's. Then the stays of weights and gradient sums have addresses on the device.
  bool separate_device = false;

  // [unit] It lives in the host's memory or the store, and the separate device updates it: a tile
  // at a time passes through the device's memory.
  std::vector<bool> streams_update;

  // Homes of planes that live in memory: [unit][plane index]; bytes 0 where not.
  std::vector<std::vector<ArenaSpan>> plane_homes;
  std::vector<ArenaSpan> gradient_homes;  // [unit]; bytes 0 where none

  // [unit] Its gradient sums are in the run's dtype, and are the rounded gradient when complete.
  std::vector<bool> rounded_sums;
  uint32_t SumBytesPerParameter(int unit) const {
    return rounded_sums[unit] ? layout.gradient_bytes_per_parameter() : sizeof(float);
  }

  std::vector<WeightStay> weight_stays;  // by first_op
  std::vector<GradientStay> gradient_stays;

  // [unit] Where its input is kept from its forward to its backward, and how much that is
  // (a multiple of 4096; 0 where it is no business of the plan).
  std::vector<Tier> activations;
  std::vector<uint64_t> activation_bytes;
  std::vector<ArenaSpan> activation_homes;       // [unit] of Tier::kHost; bytes 0 where none
  std::vector<ActivationStay> activation_stays;  // of Tier::kNvme, by first op
  uint64_t device_activation_bytes = 0;          // with the margin, beside the arena

  // What the store must have room for: also activations in the host's memory, which another
  // plan for the same budgets may spill.
  SpillRoom spill_room;

  int tile_buffers = 0;
  uint64_t tile_buffer_bytes = 0;
  std::vector<ArenaSpan> tile_spans;
  // Where in a tile buffer a gradient goes that has no other place.
  uint64_t tile_gradient_offset = 0;

  // A separate device's: host memory that a tile of weights passes through from the store to the
  // device; device memory that a tile of a gradient is rounded into on its way to the host, with
  // what was learned of it; and host memory for the latter, for every tile under way.
  std::vector<ArenaSpan> stage_spans;
  ArenaSpan rounded_span;
  ArenaSpan partials_span;
  // Device memory for a tile whose update is streamed: its planes as on storage, and its gradient
  // where that has waited elsewhere.
  std::vector<ArenaSpan> device_tile_spans;
  uint64_t device_tile_gradient_offset = 0;

  int turn_unit = -1;  // whose update is the one at the turn; -1: none, or no memory for it
  std::vector<TurnStay> turn_stays;
  int turn_tiles() const;  // of all of them

  int lookahead = 0;
  int forward_lookahead = 0;  // where the forward has room for more
  int apart_lookahead = 0;    // and where no unit far larger than most is near
  uint64_t host_arena_bytes = 0;
  uint64_t device_arena_bytes = 0;
  uint64_t min_host_bytes = 0;  // the smallest host_bytes that would do
  StepTraffic traffic;

  // Of the device's memory, with what whoever computes is given for activations.
  uint64_t device_bytes() const { return device_arena_bytes + device_activation_bytes; }

  // Whether anything at all goes to and comes from the store in a step.
  bool any_nvme() const;

  PlanResidency Residency() const;

  // Whether a stay's weights are read from the store by a fetch of their own.
  bool FetchedFromStore(const WeightStay& stay) const {
    return placements[stay.unit].weight == Tier::kNvme && !stay.filled_by_update;
  }

  // Whether a plane's home is in the memory of a separate device.
  bool HomeOnDevice(int unit, int plane) const {
    return separate_device && placements[unit].PlaneTier(plane) == Tier::kDevice;
  }
  // Whether operations read the unit's weights where they live, and not a stay of them.
  bool ReadsHome(int unit) const {
    const Tier weight = placements[unit].weight;
    return weight != Tier::kNvme && (!separate_device || weight == Tier::kDevice);
  }
  // Whether a unit is updated by the separate device that has all of its state.
  bool UpdatesOnDevice(int unit) const {
    return HomeOnDevice(unit, 0) && placements[unit].optimizer == Tier::kDevice;
  }

  // Whether a unit's update puts the new weights into the next forward's stay.
  bool UpdateFillsStays(int unit) const {
    const Tier weight = placements[unit].weight;
    return weight == Tier::kNvme || (weight == Tier::kHost && streams_update[unit]);
  }
  // Whether a tile's plane is copied to a separate device, or from it, for a streamed update: but
  // for what lives there, and the weights that the backward has just read there, on their way in.
  bool StreamsIn(int unit, int plane) const {
    return StreamsOut(unit, plane) && !(plane == 0 && weight_at_hand[unit]);
  }
  bool StreamsOut(int unit, int plane) const {
    return streams_update[unit] && !HomeOnDevice(unit, plane);
  }

  // Whether a separate device does the unit's update, wherever it lives.
  bool DeviceUpdates(int unit) const { return UpdatesOnDevice(unit) || streams_update[unit]; }
  // Whether a stay's weights are copied to a separate device, from wherever.
  bool CopiedToDevice(const WeightStay& stay) const {
    return separate_device && !(stay.filled_by_update && streams_update[stay.unit]);
  }

  // Planes [first, last_nvme_plane) are what an update reads from the store.
  int FirstPlaneRead(int unit) const {
    const int first = placements[unit].first_nvme_plane;
    return first == 0 && weight_at_hand[unit] ? 1 : first;
  }
  // Bytes that a unit's update reads from, and writes to, the store.
  uint64_t UpdateBytesRead(int unit) const;
  uint64_t UpdateBytesWritten(int unit) const;

  // A few lines for people: where what lives, traffic of a step.
  std::string Summary() const;
};

}  // namespace spillway
