// Learning rates as functions of the step.
//
// Those in lower case are transformers' (get_scheduler, 5.24); the others are DeepSpeed's
// (deepspeed/runtime/lr_schedules.py, 0.19.8). What is returned is
// the rate *applied in* training step k, which both libraries set before that step:
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

// A schedule that follows what evaluations find (engine/numeric/metric_schedule.h).
struct MetricScheduleSpec {
  enum class Kind : uint8_t {
    kPlateau,  // the rate falls where the metric no longer gets better
    kGreedy,   // likewise, and rises where it keeps getting better
  };

  Kind kind = Kind::kPlateau;
  bool higher_is_better = false;  // mode "max"
  // The rate is multiplied by it, or divided, after more evaluations in a row than `patience` that
  // were not better, or were.
  double factor = 0.1;
  int64_t patience = 10;
  // What is better by less is not better; relative: a part of the best so far.
  double threshold = 1e-4;
  bool relative_threshold = true;
  int64_t cooldown = 0, warmup = 0;  // evaluations that are passed over after a fall, after a rise
  double min_lr = 0, max_lr = 1;     // the second of kGreedy
  double eps = 1e-8;                 // a change that is no more than this is not made
  // kGreedy: the metric is the mean of so many evaluations; 0: the last one's.
  int64_t window_size = 0;
  int64_t reset_start = 500;  // kGreedy: falls at the least rate until all begins anew

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
    kCosineWarmupWithMinLr,  // ... whose warm-up begins above 0
    kWarmupStableDecay,
    kReduceOnPlateau,  // follows evaluations: the rate is a state's (metric_schedule.h)
    kGreedy,           // likewise
  };
  enum class WarmupType : uint8_t { kLog, kLinear };  // DeepSpeed's

  Kind kind = Kind::kConstant;
  int64_t warmup_steps = 0;  // DeepSpeed's warmup_num_steps: 1000 there by default, at least 2
  double warmup_part = 0;    // where above 0, warmup_steps becomes this part of the run's steps

  // transformers' lr_scheduler_kwargs, by their names there.
  double num_cycles = 0.5;  // kCosine and its like; kCosineWithRestarts: 1 there
  double lr_end = 1e-7;     // kPolynomial
  double power = 1;         // kPolynomial
  std::optional<int64_t> timescale = std::nullopt;  // kInverseSqrt; absent: the warm-up, or 10,000
  // kCosineWithMinLr, kCosineWarmupWithMinLr: of the optimizer's rate, or in its place.
  double min_lr_rate = 0;
  std::optional<double> min_lr = std::nullopt;
  std::optional<double> warmup_lr_rate = std::nullopt;  // kCosineWarmupWithMinLr
  // kWarmupStableDecay. Steps in which the rate decays, and before those steps in which it stays
  // (absent: what the run leaves).
  enum class Curve : uint8_t { kLinear, kCosine, kOneMinusSqrt };
  int64_t num_decay_steps = 0;
  std::optional<int64_t> num_stable_steps = std::nullopt;
  Curve warmup_curve = Curve::kLinear, decay_curve = Curve::kCosine;
  double min_lr_ratio = 0;
  MetricScheduleSpec metric = {};  // kReduceOnPlateau, kGreedy

  // DeepSpeed's.
  WarmupType warmup_type = WarmupType::kLog;
  double warmup_min_lr = 0;  // kWarmupLr, kWarmupDecayLr
  std::optional<double> warmup_max_lr =
      std::nullopt;               // absent: the optimizer's (kWarmupDecayLr there: 0.001)
  double warmup_min_ratio = 0;    // kWarmupCosineLr, of the optimizer's rate
  double cos_min_ratio = 0.0001;  // kWarmupCosineLr
  // kWarmupDecayLr, kWarmupCosineLr: DeepSpeed's total_num_steps; absent: the run's.
  std::optional<int64_t> total_num_steps = std::nullopt;

  // kLrRangeTest: DeepSpeed's lr_range_test_*. From min_lr the rate grows by min_lr * step_rate in
  // step_size steps, all at once at their end with staircase.
  struct RangeTest {
    double min_lr = 1e-3;
    double step_rate = 1;
    int64_t step_size = 2000;
    bool staircase = false;

    friend bool operator==(const RangeTest&, const RangeTest&) = default;
  };
  RangeTest range_test = {};

  // kOneCycle: DeepSpeed's cycle_*, decay_lr_rate and decay_step_size. From min_lr to max_lr in
  // first_steps, back in second_steps, each in that many stairs where it has some. Afterwards
  // min_lr / (1 + decay_rate * steps / decay_steps); 0 of either: min_lr.
  struct OneCycle {
    double min_lr = 0, max_lr = 0;
    int64_t first_steps = 2000, second_steps = 2000;
    int64_t first_stairs = 0, second_stairs = 0;
    double decay_rate = 0;
    int64_t decay_steps = 0;
    // Whether beta1 goes from max_beta1 to min_beta1 and back as the rate goes up and down, and
    // stays there, with a beta2 of 0.99.
    bool moves_betas = false;
    double min_beta1 = 0.8, max_beta1 = 0.9;

    friend bool operator==(const OneCycle&, const OneCycle&) = default;
  };
  OneCycle one_cycle = {};

  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

// As transformers or DeepSpeed call it: "constant", "WarmupLR", "reduce_lr_on_plateau", ...
absl::string_view ScheduleName(ScheduleSpec::Kind kind);

// kInvalidArgument, naming the field, when a number makes no sense.
absl::Status ValidateSchedule(const ScheduleSpec& spec);

// The rate follows evaluations: FollowMetric makes it.
bool FollowsMetric(ScheduleSpec::Kind kind);

// The rate applied in training step `step` (from 1) of a run of `total_steps`. Of a schedule that
// follows evaluations `base_lr` is the rate as it is.
double LearningRate(const ScheduleSpec& spec, double base_lr, int64_t step, int64_t total_steps);

// beta1 and beta2 applied in training step `step`, where the schedule moves them and they are not
// the optimizer's.
std::optional<std::array<double, 2>> ScheduledBetas(const ScheduleSpec& spec, int64_t step);

}  // namespace spillway
