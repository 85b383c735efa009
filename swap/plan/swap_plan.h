// What lives where, and which buffer holds it when: the plan of a run.
//
// PlanSwaps is a pure function of values: the layout of the state, the order of
// a step's accesses, the budgets and the user's wishes. Every buffer gets its
// address here, by its lifetime in the step, so that at run time nothing is
// ever searched for, fragmented or "out of buffers": a buffer waits only until
// those that had its addresses before, in program order, have been released.
//
// Memory beyond the minimum is spent in this order: activations that stay on the device,
// look-ahead (weights are fetched some operations early), gradients that wait for the next
// forward, weights kept over the turns of a step, activations in the host's memory instead of
// the store, whole units that never touch storage, and buffers for the turn of two steps in what
// is idle there. With a clock the time line of each choice is simulated, and the fastest taken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "swap/plan/state_layout.h"
#include "swap/plan/step_clock.h"
#include "swap/plan/step_schedule.h"

namespace spillway {

enum class Tier : uint8_t {
  kDevice,  // memory of the device budget
  kHost,    // the host arena
  kNvme,    // the store
};
absl::string_view TierName(Tier tier);

// What the user asked for one kind of state; kAuto leaves it to the plan.
enum class TierChoice : uint8_t { kAuto, kDevice, kHost, kNvme };

// What a device learns of a tile's gradient takes so much, and so many tiles may be under way on
// one with memory of its own.
inline constexpr uint64_t kPartialBytes = 64;
inline constexpr int kMaxDeviceTiles = 64;

// An allocator's blocks are a little larger than what was asked for.
inline constexpr uint64_t kActivationMargin = 16;

struct PlanRequest {
  StateLayout layout;
  StepSchedule schedule;  // the training step; an evaluation schedule for generation
  // The device's memory is its own (swap/device/device.h): what an operation uses of other memory
  // is copied there. Left to the plan, state lives there where all of it has room.
  bool separate_device = false;
  TierChoice weights = TierChoice::kAuto;
  TierChoice optimizer = TierChoice::kAuto;
  TierChoice activations = TierChoice::kAuto;
  // [unit] Bytes of its input, of all micro-batches, that a training step keeps from its
  // forward to its backward; 0, or empty: no business of the plan. On the device they take a
  // sixteenth more (kActivationMargin). Whoever computes has one unit's input, of
  // `input_in_flight_bytes`, there at any time, which is not in device_bytes.
  std::vector<uint64_t> activation_bytes = {};
  uint64_t input_in_flight_bytes = 0;
  // [unit] At most two terms are added up in its gradient sums: they need no fp32. A term is
  // of the run's dtype, and the fp32 sum of two, rounded, is the sum rounded once: so such sums
  // are the rounded gradient, in as many bytes. Empty: fp32 for all, as on a separate device.
  std::vector<bool> rounded_sums = {};
  bool has_storage = false;   // there is a swap path
  uint64_t device_bytes = 0;  // what is left of the budgets for state and buffers
  uint64_t host_bytes = 0;
  // Immediate updates: the share of units whose update is deferred all the same, evenly
  // spread, in [0, 1]; none: as `clock` finds best, 0 without one.
  std::optional<double> deferred_share;
  // On a separate device: the share of the state, evenly spread over the units, whose update is
  // done there although it lives elsewhere, in [0, 1]: a tile at a time is copied there and back.
  // What is updated by the host otherwise. None: as `clock` finds best, 0 without one. 0, too,
  // where the device has no memory left for the tiles.
  std::optional<double> device_update_share;
  std::optional<StepClock> clock;
  bool read_ahead_at_turn = true;
  int max_tile_buffers = 24;
  int max_lookahead = 4;
};

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
  int op = 0;
  bool loads = false;
  int lead_ops = 0;  // how many operations before `op` the addresses are its own
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

// Bytes at rest by Tier.
struct PlanResidency {
  uint64_t weights[3] = {};
  uint64_t optimizer[3] = {};
  uint64_t gradients[3] = {};  // of units whose update is deferred
  uint64_t activations[3] = {};
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
  std::vector<ActivationStay> activation_stays;  // of Tier::kNvme, by op
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
  // Bytes of a parameter that an update reads from, and writes to, the store.
  uint64_t UpdateBytesRead(int unit) const;
  uint64_t UpdateBytesWritten(int unit) const;

  // A few lines for people: where what lives, traffic of a step.
  std::string Summary() const;
};

// kResourceExhausted when it can't fit: the message has what is missing and the
// smallest budgets that would do (and `min_host_bytes`, `min_device_bytes` if not null).
// kInvalidArgument when a choice contradicts another (NVMe without a swap path).
absl::StatusOr<SwapPlan> PlanSwaps(const PlanRequest& request, uint64_t* min_host_bytes = nullptr,
                                   uint64_t* min_device_bytes = nullptr);

// Memory for state and buffers, of both tiers together.
struct BudgetPair {
  uint64_t host_bytes = 0;
  uint64_t device_bytes = 0;
};

// The smallest budgets: PlanSwaps finds a plan if, and only if, both of the request's are
// at least those of one of these pairs. The request's own budgets do not matter. Several
// pairs where state may go to either tier: less of the host's memory, more of the device's.
// kInvalidArgument as from PlanSwaps.
absl::StatusOr<std::vector<BudgetPair>> SmallestBudgets(const PlanRequest& request);

}  // namespace spillway
