// Learning rates as functions of the step.
//
// constant, linear and cosine are transformers' get_*_schedule_with_warmup; the other
// three are DeepSpeed's (deepspeed/runtime/lr_schedules.py, 0.19.8). What is returned is
// the rate *applied in* training step k, which both libraries set before that step:
// - transformers evaluates its lambda at k - 1, so with warm-up step 1 has rate 0;
// - DeepSpeed's schedulers start at the minimum and are stepped after each update, so
//   step 1 has the minimum and step k >= 2 the formula at iteration k - 2.
// Steps that were skipped (fp16 overflow) do not count as steps in DeepSpeed's engine.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

struct ScheduleSpec {
  enum class Kind : uint8_t {
    kConstant,
    kLinear,
    kCosine,
    kWarmupLr,        // DeepSpeed WarmupLR
    kWarmupDecayLr,   // DeepSpeed WarmupDecayLR
    kWarmupCosineLr,  // DeepSpeed WarmupCosineLR
  };
  enum class WarmupType : uint8_t { kLog, kLinear };  // DeepSpeed's

  Kind kind = Kind::kConstant;
  int64_t warmup_steps = 0;  // DeepSpeed's warmup_num_steps: 1000 there by default, at least 2

  double num_cycles = 0.5;  // kCosine

  // DeepSpeed's.
  WarmupType warmup_type = WarmupType::kLog;
  double warmup_min_lr = 0;  // kWarmupLr, kWarmupDecayLr
  std::optional<double> warmup_max_lr =
      std::nullopt;               // absent: the optimizer's (kWarmupDecayLr there: 0.001)
  double warmup_min_ratio = 0;    // kWarmupCosineLr, of the optimizer's rate
  double cos_min_ratio = 0.0001;  // kWarmupCosineLr
  // kWarmupDecayLr, kWarmupCosineLr: DeepSpeed's total_num_steps; absent: the run's.
  std::optional<int64_t> total_num_steps = std::nullopt;

  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

// "constant", "linear", "cosine", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR".
absl::string_view ScheduleName(ScheduleSpec::Kind kind);
std::optional<ScheduleSpec::Kind> ScheduleFromName(absl::string_view name);

// kInvalidArgument, naming the field, when a number makes no sense.
absl::Status ValidateSchedule(const ScheduleSpec& spec);

// The rate applied in training step `step` (from 1) of a run of `total_steps`.
double LearningRate(const ScheduleSpec& spec, double base_lr, int64_t step, int64_t total_steps);

}  // namespace spillway
