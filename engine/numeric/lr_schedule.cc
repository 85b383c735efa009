#include "engine/numeric/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_format.h"
#include "io/base/check.h"
#include "io/base/enum_name.h"

namespace spillway {
namespace {

using ScheduleKind = ScheduleSpec::Kind;

double Ratio(int64_t numerator, int64_t denominator) {
  return static_cast<double>(numerator) / static_cast<double>(std::max<int64_t>(1, denominator));
}

double Wave(double cycles) { return 0.5 * (1.0 + std::cos(std::numbers::pi * cycles)); }

// _get_cosine_schedule_with_warmup_lr_lambda, after the warm-up.
double CosineFactor(const ScheduleSpec& spec, double progress, double least) {
  const double factor = Wave(spec.num_cycles * 2.0 * progress);
  return std::max(0.0, factor * (1 - least) + least);
}

// The final fraction of the rate for kCosineWithMinLr and kCosineWarmupWithMinLr.
double LeastFactor(const ScheduleSpec& spec, double base_lr) {
  return spec.min_lr ? *spec.min_lr / base_lr : spec.min_lr_rate;
}

// _get_cosine_with_min_lr_schedule_with_warmup_lr_rate_lambda
double CosineWarmupFactor(const ScheduleSpec& spec, double base_lr, int64_t current_step,
                          int64_t total_steps) {
  if (current_step < spec.warmup_steps) {
    if (!spec.warmup_lr_rate) return Ratio(current_step + 1, spec.warmup_steps);
    const double begin = *spec.warmup_lr_rate;
    return begin + (1.0 - begin) * static_cast<double>(current_step) /
                       static_cast<double>(std::max<int64_t>(1, spec.warmup_steps - 1));
  }
  return CosineFactor(spec,
                      Ratio(current_step - spec.warmup_steps + 1, total_steps - spec.warmup_steps),
                      LeastFactor(spec, base_lr));
}

// _get_polynomial_decay_schedule_with_warmup_lr_lambda, after the warm-up.
double PolynomialFactor(const ScheduleSpec& spec, double base_lr, int64_t current_step,
                        int64_t total_steps) {
  if (current_step > total_steps) return spec.lr_end / base_lr;
  const double left = 1 - Ratio(current_step - spec.warmup_steps, total_steps - spec.warmup_steps);
  const double decayed = (base_lr - spec.lr_end) * std::pow(left, spec.power) + spec.lr_end;
  return decayed / base_lr;
}

// _get_wsd_scheduler_lambda
double WarmupStableDecayFactor(const ScheduleSpec& spec, int64_t current_step,
                               int64_t total_steps) {
  using Curve = ScheduleSpec::Curve;
  const auto above_least = [&](double factor) {
    return std::max(0.0, factor * (1.0 - spec.min_lr_ratio) + spec.min_lr_ratio);
  };
  if (current_step < spec.warmup_steps) {
    const double progress = Ratio(current_step, spec.warmup_steps);
    switch (spec.warmup_curve) {
      case Curve::kLinear:
        return above_least(progress);
      case Curve::kCosine:
        return above_least(0.5 * (1.0 - std::cos(std::numbers::pi * progress)));
      case Curve::kOneMinusSqrt:
        return above_least(1.0 - std::sqrt(1.0 - progress));
    }
  }
  const int64_t stable =
      spec.num_stable_steps.value_or(total_steps - spec.warmup_steps - spec.num_decay_steps);
  const int64_t decayed = current_step - spec.warmup_steps - stable;
  if (decayed < 0) return 1;
  if (decayed >= spec.num_decay_steps) return spec.min_lr_ratio;
  const double progress = Ratio(decayed, spec.num_decay_steps);
  switch (spec.decay_curve) {
    case Curve::kLinear:
      return above_least(1.0 - progress);
    case Curve::kCosine:
      return above_least(Wave(spec.num_cycles * 2.0 * progress));
    case Curve::kOneMinusSqrt:
      return above_least(1.0 - std::sqrt(progress));
  }
  SPILLWAY_CHECK(false);
}

// transformers/optimization.py: the factor of the rate after `current_step` steps.
double TransformersFactor(const ScheduleSpec& spec, double base_lr, int64_t current_step,
                          int64_t total_steps) {
  if (FollowsMetric(spec.kind)) return 1;
  if (spec.kind == ScheduleKind::kCosineWarmupWithMinLr) {
    return CosineWarmupFactor(spec, base_lr, current_step, total_steps);
  }
  if (spec.kind == ScheduleKind::kWarmupStableDecay) {
    return WarmupStableDecayFactor(spec, current_step, total_steps);
  }
  if (current_step < spec.warmup_steps) {
    return Ratio(current_step, spec.warmup_steps);
  }
  const double progress = Ratio(current_step - spec.warmup_steps, total_steps - spec.warmup_steps);
  switch (spec.kind) {
    case ScheduleKind::kLinear:
      return std::max(0.0, Ratio(total_steps - current_step, total_steps - spec.warmup_steps));
    case ScheduleKind::kCosine:
      return CosineFactor(spec, progress, 0);
    case ScheduleKind::kCosineWithMinLr:
      return CosineFactor(spec, progress, LeastFactor(spec, base_lr));
    case ScheduleKind::kCosineWithRestarts:
      return progress >= 1 ? 0 : Wave(std::fmod(spec.num_cycles * progress, 1.0));
    case ScheduleKind::kPolynomial:
      return PolynomialFactor(spec, base_lr, current_step, total_steps);
    case ScheduleKind::kInverseSqrt: {
      const int64_t scale =
          spec.timescale.value_or(spec.warmup_steps > 0 ? spec.warmup_steps : 10'000);
      return 1.0 / std::sqrt(static_cast<double>(current_step + scale - spec.warmup_steps) /
                             static_cast<double>(scale));
    }
    default:
      return 1;
  }
}

int64_t DeepSpeedWarmupSteps(const ScheduleSpec& spec) {
  return std::max<int64_t>(2, spec.warmup_steps);
}

// WarmupLR._get_gamma and the first part of WarmupCosineLR.get_lr_ratio, before the warm-up's end.
double WarmupGamma(const ScheduleSpec& spec, int64_t iteration) {
  const int64_t warmup = DeepSpeedWarmupSteps(spec);
  if (spec.warmup_type == ScheduleSpec::WarmupType::kLinear) {
    return Ratio(iteration, warmup);
  }
  return 1.0 / std::log(static_cast<double>(warmup)) * std::log(static_cast<double>(iteration + 1));
}

double WarmupLr(const ScheduleSpec& spec, double base_lr, int64_t iteration, int64_t total_steps) {
  if (iteration < 0) {
    return spec.warmup_min_lr;
  }
  const int64_t warmup = DeepSpeedWarmupSteps(spec);
  double gamma = 1;
  if (iteration < warmup) {
    gamma = WarmupGamma(spec, iteration);
  } else if (spec.kind == ScheduleKind::kWarmupDecayLr) {
    gamma = std::max(0.0, Ratio(total_steps - iteration, total_steps - warmup));
  }
  const double delta = spec.warmup_max_lr.value_or(base_lr) - spec.warmup_min_lr;
  return spec.warmup_min_lr + delta * gamma;
}

double WarmupCosineRatio(const ScheduleSpec& spec, int64_t iteration, int64_t total_steps) {
  if (iteration < 0) {
    return 0;
  }
  const int64_t warmup = DeepSpeedWarmupSteps(spec);
  if (iteration < warmup) {
    return spec.warmup_min_ratio + WarmupGamma(spec, iteration) * (1.0 - spec.warmup_min_ratio);
  }
  const double progress = std::min(1.0, Ratio(iteration - warmup + 1, total_steps - warmup));
  const double cosine = (1 + std::cos(std::numbers::pi * progress)) / 2;
  return std::max(0.0, spec.cos_min_ratio + (1.0 - spec.cos_min_ratio) * cosine);
}

double RangeTestRate(const ScheduleSpec::RangeTest& test, int64_t iteration) {
  double steps = Ratio(iteration, test.step_size);
  if (test.staircase) steps = std::floor(steps);
  return test.min_lr * (1 + test.step_rate * steps);
}

// OneCycle._get_scale_factor: the height in its cycle, from 0 to 1.
double CycleHeight(const ScheduleSpec::OneCycle& cycle, int64_t iteration) {
  const double total = static_cast<double>(cycle.first_steps + cycle.second_steps);
  const double first = static_cast<double>(cycle.first_steps) / total;
  const double at = 1.0 + static_cast<double>(iteration) / total;
  const double x = at - std::floor(at);
  const bool rises = x <= first;
  const int64_t stairs = rises ? cycle.first_stairs : cycle.second_stairs;
  if (stairs == 0) return rises ? x / first : (x - 1) / (first - 1);
  // Computed in whole steps: at the end of a half the height may be just below a stair.
  const auto in_cycle = static_cast<double>(iteration % (cycle.first_steps + cycle.second_steps));
  const auto first_steps = static_cast<double>(cycle.first_steps);
  const double stair = in_cycle <= first_steps
                           ? in_cycle * static_cast<double>(stairs) / first_steps
                           : (total - in_cycle) * static_cast<double>(stairs) /
                                 static_cast<double>(cycle.second_steps);
  return std::floor(stair) / static_cast<double>(stairs);
}

// The last iteration of the cycle belongs to it, as in DeepSpeed; its height is 0.
bool WithinCycle(const ScheduleSpec::OneCycle& cycle, int64_t iteration) {
  return iteration <= cycle.first_steps + cycle.second_steps;
}

double CycleRate(const ScheduleSpec::OneCycle& cycle, int64_t iteration) {
  if (WithinCycle(cycle, iteration)) {
    return cycle.min_lr + (cycle.max_lr - cycle.min_lr) * CycleHeight(cycle, iteration);
  }
  if (cycle.decay_steps == 0 || cycle.decay_rate == 0) return cycle.min_lr;
  const int64_t decayed = iteration - cycle.first_steps - cycle.second_steps;
  return cycle.min_lr / (1 + cycle.decay_rate * Ratio(decayed, cycle.decay_steps));
}

absl::Status Invalid(absl::string_view field, double value, absl::string_view limit) {
  return absl::InvalidArgumentError(
      absl::StrFormat("lr schedule: %s is %g; it must be %s", field, value, limit));
}

}  // namespace

absl::string_view ScheduleName(ScheduleKind kind) {
  return EnumName(
      kind,
      {"constant", "linear", "cosine", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "LRRangeTest",
       "OneCycle", "cosine_with_restarts", "polynomial", "inverse_sqrt", "cosine_with_min_lr",
       "cosine_warmup_with_min_lr", "warmup_stable_decay", "reduce_lr_on_plateau", "greedy"});
}

absl::Status ValidateMetricSchedule(const MetricScheduleSpec& spec) {
  const auto invalid = [](const char* field, double value, const char* limit) {
    return absl::InvalidArgumentError(
        absl::StrFormat("lr schedule: %s is %g; it must be %s", field, value, limit));
  };
  if (!(spec.factor > 0 && spec.factor < 1)) {
    return invalid("factor", spec.factor, "above 0 and below 1");
  }
  for (const auto& [name, value] : {std::pair{"threshold", spec.threshold},
                                    {"min_lr", spec.min_lr},
                                    {"max_lr", spec.max_lr},
                                    {"eps", spec.eps},
                                    {"patience", static_cast<double>(spec.patience)},
                                    {"cooldown", static_cast<double>(spec.cooldown)},
                                    {"warmup", static_cast<double>(spec.warmup)},
                                    {"window_size", static_cast<double>(spec.window_size)},
                                    {"reset_start", static_cast<double>(spec.reset_start)}}) {
    if (!(value >= 0 && std::isfinite(value))) return invalid(name, value, "0 or more");
  }
  return absl::OkStatus();
}

absl::Status ValidateSchedule(const ScheduleSpec& spec) {
  const auto not_negative = [](double value) { return value >= 0 && std::isfinite(value); };
  if (spec.warmup_steps < 0) {
    return Invalid("warmup_steps", spec.warmup_steps, "0 or more");
  }
  if (!std::isfinite(spec.num_cycles)) {
    return Invalid("num_cycles", spec.num_cycles, "finite");
  }
  for (const auto& [name, value] :
       {std::pair{"warmup_min_lr", spec.warmup_min_lr},
        {"warmup_max_lr", spec.warmup_max_lr.value_or(0)},
        {"warmup_min_ratio", spec.warmup_min_ratio},
        {"cos_min_ratio", spec.cos_min_ratio},
        {"lr_end", spec.lr_end},
        {"power", spec.power},
        {"min_lr", spec.min_lr.value_or(0)},
        {"min_lr_rate", spec.min_lr_rate},
        {"warmup_lr_rate", spec.warmup_lr_rate.value_or(0)},
        {"min_lr_ratio", spec.min_lr_ratio},
        {"num_decay_steps", static_cast<double>(spec.num_decay_steps)},
        {"num_stable_steps", static_cast<double>(spec.num_stable_steps.value_or(0))}}) {
    if (!not_negative(value)) return Invalid(name, value, "0 or more");
  }
  if (spec.total_num_steps && *spec.total_num_steps < 1) {
    return Invalid("total_num_steps", *spec.total_num_steps, "1 or more");
  }
  const ScheduleSpec::RangeTest& test = spec.range_test;
  const ScheduleSpec::OneCycle& cycle = spec.one_cycle;
  for (const auto& [name, value] : {std::pair{"lr_range_test_min_lr", test.min_lr},
                                    {"lr_range_test_step_rate", test.step_rate},
                                    {"cycle_min_lr", cycle.min_lr},
                                    {"cycle_max_lr", cycle.max_lr},
                                    {"decay_lr_rate", cycle.decay_rate}}) {
    if (!not_negative(value)) return Invalid(name, value, "0 or more");
  }
  for (const auto& [name, value] :
       {std::pair{"cycle_min_mom", cycle.min_beta1}, {"cycle_max_mom", cycle.max_beta1}}) {
    if (!not_negative(value) || value >= 1) return Invalid(name, value, "0 or more and below 1");
  }
  for (const auto& [name, value] : {std::pair{"lr_range_test_step_size", test.step_size},
                                    {"cycle_first_step_size", cycle.first_steps}}) {
    if (value < 1) return Invalid(name, static_cast<double>(value), "1 or more");
  }
  for (const auto& [name, value] : {std::pair{"cycle_second_step_size", cycle.second_steps},
                                    {"cycle_first_stair_count", cycle.first_stairs},
                                    {"cycle_second_stair_count", cycle.second_stairs},
                                    {"decay_step_size", cycle.decay_steps}}) {
    if (value < 0) return Invalid(name, static_cast<double>(value), "0 or more");
  }
  if (spec.timescale && *spec.timescale < 1) {
    return Invalid("timescale", static_cast<double>(*spec.timescale), "1 or more");
  }
  return ValidateMetricSchedule(spec.metric);
}

bool FollowsMetric(ScheduleKind kind) {
  return kind == ScheduleKind::kReduceOnPlateau || kind == ScheduleKind::kGreedy;
}

double LearningRate(const ScheduleSpec& spec, double base_lr, int64_t step, int64_t total_steps) {
  SPILLWAY_CHECK(step >= 1);
  const int64_t decay_steps = spec.total_num_steps.value_or(total_steps);
  switch (spec.kind) {
    case ScheduleKind::kConstant:
    case ScheduleKind::kLinear:
    case ScheduleKind::kCosine:
    case ScheduleKind::kCosineWithRestarts:
    case ScheduleKind::kPolynomial:
    case ScheduleKind::kInverseSqrt:
    case ScheduleKind::kCosineWithMinLr:
    case ScheduleKind::kCosineWarmupWithMinLr:
    case ScheduleKind::kWarmupStableDecay:
    case ScheduleKind::kReduceOnPlateau:
    case ScheduleKind::kGreedy:
      return base_lr * TransformersFactor(spec, base_lr, step - 1, total_steps);
    case ScheduleKind::kWarmupLr:
    case ScheduleKind::kWarmupDecayLr:
      return WarmupLr(spec, base_lr, step - 2, decay_steps);
    case ScheduleKind::kWarmupCosineLr:
      return base_lr * WarmupCosineRatio(spec, step - 2, decay_steps);
    case ScheduleKind::kLrRangeTest:
      return RangeTestRate(spec.range_test, step - 1);
    case ScheduleKind::kOneCycle:
      return CycleRate(spec.one_cycle, step - 1);
  }
  SPILLWAY_CHECK(false);
}

std::optional<std::array<double, 2>> ScheduledBetas(const ScheduleSpec& spec, int64_t step) {
  const ScheduleSpec::OneCycle& cycle = spec.one_cycle;
  if (spec.kind != ScheduleKind::kOneCycle || !cycle.moves_betas) return std::nullopt;
  constexpr double kBeta2 = 0.99;
  if (step == 1) return {{cycle.min_beta1, kBeta2}};  // as in DeepSpeed
  if (!WithinCycle(cycle, step - 1)) return {{cycle.max_beta1, kBeta2}};
  const double height = CycleHeight(cycle, step - 1);
  return {{cycle.max_beta1 - (cycle.max_beta1 - cycle.min_beta1) * height, kBeta2}};
}

}  // namespace spillway
