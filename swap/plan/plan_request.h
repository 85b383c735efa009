// The input of the planner: the state and its accesses, the budgets and the user's choices. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "swap/plan/state_layout.h"
#include "swap/plan/step_clock.h"
#include "swap/plan/step_schedule.h"

namespace spillway {

// The user's choice of a tier for one kind of state; kAuto leaves the choice to the plan.
enum class TierChoice : uint8_t { kAuto, kDevice, kHost, kNvme };

// Memory for state and buffers, of both tiers together.
struct BudgetPair {
  uint64_t host_bytes = 0;
  uint64_t device_bytes = 0;
};

struct PlanRequest {
  StateLayout layout;
  StepSchedule schedule;  // the training step; an evaluation schedule for generation
  // Operations run on a separate device (swap/device/device.h): weights and inputs that live
  // elsewhere are copied there. With kAuto all state lives there if it has room for all.
  bool separate_device = false;
  TierChoice weights = TierChoice::kAuto;
  TierChoice optimizer = TierChoice::kAuto;
  TierChoice activations = TierChoice::kAuto;
  // [unit] Bytes of the unit's input, of all micro-batches, that a training step keeps from its
  // forward to its backward; 0, or empty: the plan does not place it. On the device inputs take a
  // sixteenth more (kActivationMargin). The compute side has one unit's input there at any time, of
  // `input_in_flight_bytes`, which device_bytes does not contain.
  std::vector<uint64_t> activation_bytes = {};
  uint64_t input_in_flight_bytes = 0;
  // [unit] The unit's gradient sums have two terms at most and need no fp32: a term is in the run's
  // dtype, and the fp32 sum of two, rounded, is the sum rounded once. So these sums have the run's
  // dtype and are the rounded gradient. Empty: fp32 for all units, as always on a separate device.
  std::vector<bool> rounded_sums = {};
  bool has_storage = false;   // there is a swap path
  uint64_t device_bytes = 0;  // the parts of the budgets that are left for state and buffers
  uint64_t host_bytes = 0;
  // The share of units, in [0, 1] and evenly spread, whose update is deferred although the
  // schedule's updates are immediate. No value: the fastest by `clock`, or 0 without a clock.
  std::optional<double> deferred_share;
  // The share of the state, in [0, 1] and evenly spread over the units, whose updates are streamed
  // through a separate device although the state lives elsewhere; the host updates the rest. No
  // value: the fastest by `clock`, or 0 without a clock. It is 0 where the device has no memory
  // left for the tiles, and where updates are measured first.
  std::optional<double> device_update_share;
  std::optional<StepClock> clock;
  bool read_ahead_at_turn = true;
  // The most tile buffers and the longest look-ahead that a plan may have: some GiB of tiles. More
  // than a few are used only where the clock's disks need them.
  int max_tile_buffers = 256;
  int max_lookahead = 16;
};

}  // namespace spillway
