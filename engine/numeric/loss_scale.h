// The loss scale of fp16 runs, as DeepSpeed keeps it (deepspeed/runtime/fp16/
// loss_scaler.py, 0.19.8: DynamicLossScaler and LossScaler).
//
// The loss is multiplied by the scale so that small gradients survive fp16. When a
// gradient overflows the step is skipped and, once `hysteresis` overflows have been
// spent, the scale is halved; after `window` steps without one it is doubled. Only the end of a run
// that overflows in every step at a static scale is our own: DeepSpeed goes on for ever.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace spillway {

struct LossScaleSpec {
  double static_scale = 0;  // 0: dynamic
  int initial_scale_power = 16;
  int64_t window = 1000;
  int64_t hysteresis = 2;
  bool consecutive_hysteresis = false;  // refill the hysteresis at every good step
  double min_scale = 1;

  friend bool operator==(const LossScaleSpec&, const LossScaleSpec&) = default;
};

// kInvalidArgument, naming the field, when a number makes no sense.
absl::Status ValidateLossScale(const LossScaleSpec& spec);

// So many steps that change nothing show that none will: no bad batch lasts that long.
inline constexpr int64_t kMostOverflowsInARow = 100;

// What a commit records and a resume restores.
struct LossScaleState {
  double scale = 1;
  int64_t iteration = 0;
  int64_t last_overflow_iteration = -1;
  int64_t hysteresis_left = 0;
  int64_t overflows_in_a_row = 0;  // of a static scale; DeepSpeed does not count them

  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

// Not thread-safe; owned by the step.
class LossScaler {
 public:
  explicit LossScaler(const LossScaleSpec& spec);

  double scale() const { return state_.scale; }
  const LossScaleState& state() const { return state_; }
  void Restore(const LossScaleState& state) { state_ = state; }

  // After each step; `overflow` when a gradient was not finite (the step is skipped).
  // kOutOfRange when the scale overflows and is already at its minimum, or is static and overflows
  // for the kMostOverflowsInARow-th time in a row; the state is then as before. A static scale
  // never changes.
  absl::Status Update(bool overflow);

 private:
  LossScaleSpec spec_;
  LossScaleState state_;
};

}  // namespace spillway
