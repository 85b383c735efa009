#include "engine/numeric/loss_scale.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace spillway {

absl::Status ValidateLossScale(const LossScaleSpec& spec) {
  const auto invalid = [](absl::string_view field, double value, absl::string_view limit) {
    return absl::InvalidArgumentError(
        absl::StrFormat("fp16: %s is %g; it must be %s", field, value, limit));
  };
  if (!(spec.static_scale >= 0) || !std::isfinite(spec.static_scale)) {
    return invalid("loss_scale", spec.static_scale, "0 (dynamic) or a positive number");
  }
  if (spec.initial_scale_power < 0 || spec.initial_scale_power > 120) {
    return invalid("initial_scale_power", spec.initial_scale_power, "in 0..120");
  }
  if (spec.window < 1) {
    return invalid("loss_scale_window", spec.window, "1 or more");
  }
  if (spec.hysteresis < 1) {
    return invalid("hysteresis", spec.hysteresis, "1 or more");
  }
  if (!(spec.min_scale > 0) || !std::isfinite(spec.min_scale)) {
    return invalid("min_loss_scale", spec.min_scale, "a positive number");
  }
  return absl::OkStatus();
}

LossScaler::LossScaler(const LossScaleSpec& spec) : spec_(spec) {
  state_.scale =
      spec.static_scale != 0 ? spec.static_scale : std::ldexp(1.0, spec.initial_scale_power);
  state_.hysteresis_left = spec.hysteresis;
}

absl::Status LossScaler::Update(bool overflow) {
  if (spec_.static_scale != 0) {
    const int64_t in_a_row = overflow ? state_.overflows_in_a_row + 1 : 0;
    if (in_a_row >= kMostOverflowsInARow) {
      return absl::OutOfRangeError(absl::StrFormat(
          "fp16: gradients overflow at the static loss scale of %g in %d steps in a row, and "
          "nothing is learned; start anew with a lower loss_scale, or with 0, which adapts it",
          spec_.static_scale, in_a_row));
    }
    state_.overflows_in_a_row = in_a_row;
    return absl::OkStatus();
  }
  if (overflow) {
    if (spec_.hysteresis == 1 || state_.hysteresis_left == 1) {
      if (state_.scale == spec_.min_scale) {
        return absl::OutOfRangeError(absl::StrFormat(
            "fp16: gradients overflow at the minimum loss scale of %g: the run diverges; lower "
            "the learning rate, clip gradients, or train in bf16",
            spec_.min_scale));
      }
      state_.scale = std::max(state_.scale / 2, spec_.min_scale);
    } else {
      --state_.hysteresis_left;
    }
    state_.last_overflow_iteration = state_.iteration;
  } else {
    if (spec_.consecutive_hysteresis) {
      state_.hysteresis_left = spec_.hysteresis;
    }
    const int64_t stable = state_.iteration - state_.last_overflow_iteration - 1;
    if (stable > 0 && stable % spec_.window == 0) {
      if (!spec_.consecutive_hysteresis) {
        state_.hysteresis_left = spec_.hysteresis;
      }
      state_.scale *= 2;
    }
  }
  ++state_.iteration;
  return absl::OkStatus();
}

}  // namespace spillway
