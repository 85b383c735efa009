// What a plan is asked for: the state and its accesses, the budgets, the user's wishes. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "swap/plan/state_layout.h"
#include "swap/plan/step_clock.h"
#include "swap/plan/step_schedule.h"

namespace spillway {

// What the user asked for one kind of state; kAuto leaves it to the plan.
enum class TierChoice : uint8_t { kAuto, kDevice, kHost, kNvme };

// Memory for state and buffers, of both tiers together.
struct BudgetPair {
  uint64_t host_bytes = 0;
  uint64_t device_bytes = 0;
};

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
  // where the device has no memory left for the tiles, and where updates are measured first.
  std::optional<double> device_update_share;
  std::optional<StepClock> clock;
  bool read_ahead_at_turn = true;
  // More than a few only where the clock's disks ask for it. Some GiB of tiles, and units whose
  // buffers stand in line.
  int max_tile_buffers = 256;
  int max_lookahead = 16;
};

}  // namespace spillway
