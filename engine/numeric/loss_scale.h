// The loss scale of fp16 runs, as DeepSpeed keeps it (deepspeed/runtime/fp16/
// loss_scaler.py, 0.19.8: DynamicLossScaler and LossScaler).
//
// The loss is multiplied by the scale so that small gradients survive fp16. When a gradient
// overflows the step is skipped and, once `hysteresis` overflows have been spent, the scale is
// halved; after `window` steps without one it is doubled. One rule differs: a run that overflows in
// every step at a static scale ends, while DeepSpeed continues for ever.
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

// After this many skipped steps in a row a run ends: no bad batch lasts that long.
inline constexpr int64_t kMostOverflowsInARow = 100;

// The state that a commit records and a resume restores.
struct LossScaleState {
  double scale = 1;
  int64_t iteration = 0;
  int64_t last_overflow_iteration = -1;
  int64_t hysteresis_left = 0;
  int64_t overflows_in_a_row = 0;  // with a static scale; DeepSpeed does not count them

  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

// Not thread-safe; owned by the step.
class LossScaler {
 public:
  explicit LossScaler(const LossScaleSpec& spec);

  double scale() const { return state_.scale; }
  const LossScaleState& state() const { return state_; }
  void Restore(const LossScaleState& state) { state_ = state; }

  // Call after each step; `overflow`: a gradient was not finite (the step is skipped). kOutOfRange
  // if the scale overflows at its minimum, or is static and overflows for the
  // kMostOverflowsInARow-th time in a row; the state is then unchanged. A static scale never
  // changes.
  absl::Status Update(bool overflow);

 private:
  LossScaleSpec spec_;
  LossScaleState state_;
};

}  // namespace spillway
