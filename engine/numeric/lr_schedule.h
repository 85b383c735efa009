// Learning rates as functions of the step.
//
// Names in lower case are transformers' (get_scheduler, 5.24); the others are DeepSpeed's
// (deepspeed/runtime/lr_schedules.py, 0.19.8). A result is the rate *applied in* training step k,
// which both libraries set before that step:
// - transformers evaluates its lambda at k - 1, so with warm-up step 1 has rate 0;
// - DeepSpeed's schedulers start at the minimum and are stepped after each update, so
//   step 1 has the minimum and step k >= 2 the formula at iteration k - 2 (LRRangeTest,
//   OneCycle: k - 1).
// Steps that were skipped (fp16 overflow) do not count as steps in DeepSpeed's engine.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// A schedule driven by the metric of evaluations (engine/numeric/metric_schedule.h).
struct MetricScheduleSpec {
  enum class Kind : uint8_t {
    kPlateau,  // the rate falls when the metric stops improving
    kGreedy,   // ... and rises while it keeps improving
  };

  Kind kind = Kind::kPlateau;
  bool higher_is_better = false;  // mode "max"
  // Multiplies the rate, or divides it, after more than `patience` evaluations in a row that did
  // not improve, or did.
  double factor = 0.1;
  int64_t patience = 10;
  // The least improvement that counts; relative: as a fraction of the best metric so far.
  double threshold = 1e-4;
  bool relative_threshold = true;
  int64_t cooldown = 0, warmup = 0;  // evaluations ignored after a fall, after a rise
  double min_lr = 0, max_lr = 1;     // max_lr: kGreedy only
  double eps = 1e-8;                 // smaller changes of the rate are not made
  // kGreedy: the metric is averaged over this many evaluations; 0: only the last one.
  int64_t window_size = 0;
  // kGreedy: evaluations at the minimum rate before the schedule restarts.
  int64_t reset_start = 500;

  friend bool operator==(const MetricScheduleSpec&, const MetricScheduleSpec&) = default;
};

// kInvalidArgument, naming the field, when a number makes no sense.
absl::Status ValidateMetricSchedule(const MetricScheduleSpec& spec);

struct ScheduleSpec {
  enum class Kind : uint8_t {
    kConstant,
    kLinear,
    kCosine,
    kWarmupLr,        // DeepSpeed WarmupLR
    kWarmupDecayLr,   // DeepSpeed WarmupDecayLR
    kWarmupCosineLr,  // DeepSpeed WarmupCosineLR
    kLrRangeTest,     // DeepSpeed LRRangeTest: the rate grows until training diverges
    kOneCycle,        // DeepSpeed OneCycle: the rate goes up and down once, then decays
    kCosineWithRestarts,
    kPolynomial,
    kInverseSqrt,
    kCosineWithMinLr,
    kCosineWarmupWithMinLr,  // ... with a warm-up that starts above 0
    kWarmupStableDecay,
    kReduceOnPlateau,  // follows evaluations: metric_schedule.h keeps the rate
    kGreedy,           // ... likewise
  };
  enum class WarmupType : uint8_t { kLog, kLinear };  // DeepSpeed's

  Kind kind = Kind::kConstant;
  int64_t warmup_steps = 0;  // DeepSpeed's warmup_num_steps has the default 1000 and the minimum 2
  double warmup_part = 0;    // above 0: warmup_steps becomes this fraction of the run's steps

  // transformers' lr_scheduler_kwargs, under the same names.
  double num_cycles = 0.5;  // kCosine and variants; kCosineWithRestarts: default 1 there
  double lr_end = 1e-7;     // kPolynomial
  double power = 1;         // kPolynomial
  // kInverseSqrt; absent: warm-up steps, or 10,000.
  std::optional<int64_t> timescale = std::nullopt;
  // kCosineWithMinLr, kCosineWarmupWithMinLr: the minimum relative to the optimizer's rate, or
  // absolute.
  double min_lr_rate = 0;
  std::optional<double> min_lr = std::nullopt;
  std::optional<double> warmup_lr_rate = std::nullopt;  // kCosineWarmupWithMinLr
  // kWarmupStableDecay: steps in which the rate decays, and steps before at a constant rate
  // (absent: all that remain).
  enum class Curve : uint8_t { kLinear, kCosine, kOneMinusSqrt };
  int64_t num_decay_steps = 0;
  std::optional<int64_t> num_stable_steps = std::nullopt;
  Curve warmup_curve = Curve::kLinear, decay_curve = Curve::kCosine;
  double min_lr_ratio = 0;
  MetricScheduleSpec metric = {};  // kReduceOnPlateau, kGreedy

  // DeepSpeed's parameters.
  WarmupType warmup_type = WarmupType::kLog;
  double warmup_min_lr = 0;  // kWarmupLr, kWarmupDecayLr
  std::optional<double> warmup_max_lr =
      std::nullopt;               // absent: the optimizer's (kWarmupDecayLr there: 0.001)
  double warmup_min_ratio = 0;    // kWarmupCosineLr, relative to the optimizer's rate
  double cos_min_ratio = 0.0001;  // kWarmupCosineLr
  // kWarmupDecayLr, kWarmupCosineLr: DeepSpeed's total_num_steps; absent: the run's steps.
  std::optional<int64_t> total_num_steps = std::nullopt;

  // kLrRangeTest: DeepSpeed's lr_range_test_*. The rate grows from min_lr by min_lr * step_rate per
  // step_size steps; with staircase, at once at their end.
  struct RangeTest {
    double min_lr = 1e-3;
    double step_rate = 1;
    int64_t step_size = 2000;
    bool staircase = false;

    friend bool operator==(const RangeTest&, const RangeTest&) = default;
  };
  RangeTest range_test = {};

  // kOneCycle: DeepSpeed's cycle_*, decay_lr_rate and decay_step_size. The rate goes from min_lr to
  // max_lr in first_steps and back in second_steps, each in the given number of stairs, if any.
  // Afterwards it is min_lr / (1 + decay_rate * steps / decay_steps); min_lr if either is 0.
  struct OneCycle {
    double min_lr = 0, max_lr = 0;
    int64_t first_steps = 2000, second_steps = 2000;
    int64_t first_stairs = 0, second_stairs = 0;
    double decay_rate = 0;
    int64_t decay_steps = 0;
    // Whether beta1 moves from max_beta1 to min_beta1 and back, opposite to the rate, and then
    // stays; beta2 is 0.99.
    bool moves_betas = false;
    double min_beta1 = 0.8, max_beta1 = 0.9;

    friend bool operator==(const OneCycle&, const OneCycle&) = default;
  };
  OneCycle one_cycle = {};

  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

// The name in transformers or DeepSpeed: "constant", "WarmupLR", "reduce_lr_on_plateau", ...
absl::string_view ScheduleName(ScheduleSpec::Kind kind);

// kInvalidArgument, naming the field, when a number makes no sense.
absl::Status ValidateSchedule(const ScheduleSpec& spec);

// Whether the rate follows evaluations (FollowMetric).
bool FollowsMetric(ScheduleSpec::Kind kind);

// The rate applied in training step `step` (from 1) of a run of `total_steps`. For a schedule that
// follows evaluations, `base_lr` is its current rate.
double LearningRate(const ScheduleSpec& spec, double base_lr, int64_t step, int64_t total_steps);

// beta1 and beta2 applied in training step `step`, if the schedule moves them; otherwise none, and
// the optimizer's apply.
std::optional<std::array<double, 2>> ScheduledBetas(const ScheduleSpec& spec, int64_t step);

}  // namespace spillway
