// The plan of a run, as values: where all state lives, and which buffer is at which address when.
//
// The plan gives every buffer its address, by its lifetime in the step (swap/plan/planner.h). So at
// run time no address is searched for, memory does not fragment, and there is no "out of buffers":
// a buffer waits only until those that had its addresses before, in program order, have been
// released.
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

// The bytes that a separate device's statistics of a tile's gradient take, and how many tiles may
// be under way on the device at once.
inline constexpr uint64_t kPartialBytes = 64;
inline constexpr int kMaxDeviceTiles = 64;

// Activations are planned with a margin of one part in so many, since an allocator's blocks are a
// little larger than the requests.
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
  // For how many operations before `first_op` the addresses are this stay's own.
  int lead_ops = 0;
  ArenaSpan span;
};

// A stay of a unit's spilled input in memory: from its forward until it is written, or (`loads`)
// from when it is read again until its backward.
struct ActivationStay {
  int unit = 0;
  int first_op = 0;
  int last_op = 0;
  bool loads = false;
  int lead_ops = 0;  // for how many operations before `first_op` the addresses are its own
  ArenaSpan span;
};

// Further tile buffers, in memory that is idle around the turn between two steps. There one update
// stands between a step's last gradient and the next step's first weights: its tiles are read ahead
// into these buffers, and wait in them to be written.
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

  // [unit] Whether its update waits for the next forward: that of every trained unit where the
  // schedule's updates are deferred; where they are immediate, those of units that the plan chose
  // to fill the time in which a forward leaves the disk idle.
  std::vector<bool> deferred;
  // [unit] Whether its update takes the weights from the stay in which the backward has read them.
  std::vector<bool> weight_at_hand;

  // PlanRequest::separate_device. If true, stays of weights and gradient sums are on the device.
  bool separate_device = false;

  // [unit] Whether its update is streamed: the unit lives in the host's memory or the store, and
  // its tiles pass through the memory of the separate device, which updates them.
  std::vector<bool> streams_update;

  // Homes of planes that live in memory: [unit][plane index]; bytes 0 where not.
  std::vector<std::vector<ArenaSpan>> plane_homes;
  std::vector<ArenaSpan> gradient_homes;  // [unit]; bytes 0 where none

  // [unit] Whether its gradient sums are in the run's dtype, and are the rounded gradient when
  // complete.
  std::vector<bool> rounded_sums;
  uint32_t SumBytesPerParameter(int unit) const {
    return rounded_sums[unit] ? layout.gradient_bytes_per_parameter() : sizeof(float);
  }

  std::vector<WeightStay> weight_stays;  // by first_op
  std::vector<GradientStay> gradient_stays;

  // [unit] Where its input is kept from its forward to its backward, and how many bytes it has (a
  // multiple of 4096; 0 where the plan does not place it).
  std::vector<Tier> activations;
  std::vector<uint64_t> activation_bytes;
  std::vector<ArenaSpan> activation_homes;       // [unit] of Tier::kHost; bytes 0 where none
  std::vector<ActivationStay> activation_stays;  // of Tier::kNvme, by first op
  uint64_t device_activation_bytes = 0;          // with the margin, beside the arena

  // The room that the store needs beside the state. It includes activations in the host's memory,
  // which another plan for the same budgets may spill.
  SpillRoom spill_room;

  int tile_buffers = 0;
  uint64_t tile_buffer_bytes = 0;
  std::vector<ArenaSpan> tile_spans;
  // The offset in a tile buffer of a gradient that has no other place.
  uint64_t tile_gradient_offset = 0;

  // For a separate device: stages in host memory that tiles of weights pass through from the store
  // to the device; device memory into which a tile of a gradient is rounded, with its statistics;
  // and host memory for the statistics of every tile under way.
  std::vector<ArenaSpan> stage_spans;
  ArenaSpan rounded_span;
  ArenaSpan partials_span;
  // Device memory for tiles whose updates are streamed: each has a tile's planes as on storage, and
  // a gradient that has waited elsewhere.
  std::vector<ArenaSpan> device_tile_spans;
  uint64_t device_tile_gradient_offset = 0;

  int turn_unit = -1;  // the unit whose update is at the turn; -1: none, or no turn_stays
  std::vector<TurnStay> turn_stays;
  int turn_tiles() const;  // the sum over turn_stays

  int lookahead = 0;
  int forward_lookahead = 0;  // look-ahead in the forward, which may have room for more
  int apart_lookahead = 0;    // look-ahead of operations far from units much larger than most
  uint64_t host_arena_bytes = 0;
  uint64_t device_arena_bytes = 0;
  uint64_t min_host_bytes = 0;  // the smallest host_bytes that would do
  StepTraffic traffic;

  // Bytes of the device's memory, with those that the compute side has for activations.
  uint64_t device_bytes() const { return device_arena_bytes + device_activation_bytes; }

  // Whether a step reads or writes the store at all.
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
  // Whether operations read the unit's weights where they live, and not in a stay.
  bool ReadsHome(int unit) const {
    const Tier weight = placements[unit].weight;
    return weight != Tier::kNvme && (!separate_device || weight == Tier::kDevice);
  }
  // Whether all of a unit's state lives on a separate device, which then updates it there.
  bool UpdatesOnDevice(int unit) const {
    return HomeOnDevice(unit, 0) && placements[unit].optimizer == Tier::kDevice;
  }

  // Whether a unit's update puts the new weights into the next forward's stay.
  bool UpdateFillsStays(int unit) const {
    const Tier weight = placements[unit].weight;
    return weight == Tier::kNvme || (weight == Tier::kHost && streams_update[unit]);
  }
  // Whether a plane of a tile is copied to a separate device, and from it, for a streamed update.
  // Planes that live on the device are not; nor are, on the way in, weights that the backward has
  // just read there.
  bool StreamsIn(int unit, int plane) const {
    return StreamsOut(unit, plane) && !(plane == 0 && weight_at_hand[unit]);
  }
  bool StreamsOut(int unit, int plane) const {
    return streams_update[unit] && !HomeOnDevice(unit, plane);
  }

  // Whether a separate device does the unit's update, wherever it lives.
  bool DeviceUpdates(int unit) const { return UpdatesOnDevice(unit) || streams_update[unit]; }
  // Whether a stay's weights are copied to a separate device, from the host's memory or the store.
  bool CopiedToDevice(const WeightStay& stay) const {
    return separate_device && !(stay.filled_by_update && streams_update[stay.unit]);
  }

  // An update reads planes [FirstPlaneRead, last_nvme_plane) from the store.
  int FirstPlaneRead(int unit) const {
    const int first = placements[unit].first_nvme_plane;
    return first == 0 && weight_at_hand[unit] ? 1 : first;
  }
  // Bytes that a unit's update reads from, and writes to, the store.
  uint64_t UpdateBytesRead(int unit) const;
  uint64_t UpdateBytesWritten(int unit) const;

  // A few lines for people: where the state lives, and the traffic of a step.
  std::string Summary() const;
};

}  // namespace spillway
