#include "engine/numeric/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_format.h"
#include "io/base/check.h"

namespace spillway {
namespace {

using ScheduleKind = ScheduleSpec::Kind;

double Ratio(int64_t numerator, int64_t denominator) {
  return static_cast<double>(numerator) / static_cast<double>(std::max<int64_t>(1, denominator));
}

// transformers/optimization.py: _get_{constant,linear,cosine}_schedule_with_warmup_lr_lambda.
double TransformersFactor(const ScheduleSpec& spec, int64_t current_step, int64_t total_steps) {
  if (current_step < spec.warmup_steps) {
    return Ratio(current_step, spec.warmup_steps);
  }
  switch (spec.kind) {
    case ScheduleKind::kLinear:
      return std::max(0.0, Ratio(total_steps - current_step, total_steps - spec.warmup_steps));
    case ScheduleKind::kCosine: {
      const double progress =
          Ratio(current_step - spec.warmup_steps, total_steps - spec.warmup_steps);
      return std::max(0.0,
                      0.5 * (1.0 + std::cos(std::numbers::pi * spec.num_cycles * 2.0 * progress)));
    }
    default:
      return 1;
  }
}

int64_t DeepSpeedWarmupSteps(const ScheduleSpec& spec) {
  return std::max<int64_t>(2, spec.warmup_steps);
}

// WarmupLR._get_gamma and the head of WarmupCosineLR.get_lr_ratio, below the warm-up's end.
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

absl::Status Invalid(absl::string_view field, double value, absl::string_view limit) {
  return absl::InvalidArgumentError(
      absl::StrFormat("lr schedule: %s is %g; it must be %s", field, value, limit));
}

}  // namespace

absl::string_view ScheduleName(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant:
      return "constant";
    case ScheduleKind::kLinear:
      return "linear";
    case ScheduleKind::kCosine:
      return "cosine";
    case ScheduleKind::kWarmupLr:
      return "WarmupLR";
    case ScheduleKind::kWarmupDecayLr:
      return "WarmupDecayLR";
    case ScheduleKind::kWarmupCosineLr:
      return "WarmupCosineLR";
  }
  SPILLWAY_CHECK(false);
}

std::optional<ScheduleKind> ScheduleFromName(absl::string_view name) {
  for (ScheduleKind kind :
       {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine,
        ScheduleKind::kWarmupLr, ScheduleKind::kWarmupDecayLr, ScheduleKind::kWarmupCosineLr}) {
    if (name == ScheduleName(kind)) {
      return kind;
    }
  }
  return std::nullopt;
}

absl::Status ValidateSchedule(const ScheduleSpec& spec) {
  const auto not_negative = [](double value) { return value >= 0 && std::isfinite(value); };
  if (spec.warmup_steps < 0) {
    return Invalid("warmup_steps", spec.warmup_steps, "0 or more");
  }
  if (!std::isfinite(spec.num_cycles)) {
    return Invalid("num_cycles", spec.num_cycles, "finite");
  }
  if (!not_negative(spec.warmup_min_lr)) {
    return Invalid("warmup_min_lr", spec.warmup_min_lr, "0 or more");
  }
  if (spec.warmup_max_lr && !not_negative(*spec.warmup_max_lr)) {
    return Invalid("warmup_max_lr", *spec.warmup_max_lr, "0 or more");
  }
  if (!not_negative(spec.warmup_min_ratio)) {
    return Invalid("warmup_min_ratio", spec.warmup_min_ratio, "0 or more");
  }
  if (!not_negative(spec.cos_min_ratio)) {
    return Invalid("cos_min_ratio", spec.cos_min_ratio, "0 or more");
  }
  if (spec.total_num_steps && *spec.total_num_steps < 1) {
    return Invalid("total_num_steps", *spec.total_num_steps, "1 or more");
  }
  return absl::OkStatus();
}

double LearningRate(const ScheduleSpec& spec, double base_lr, int64_t step, int64_t total_steps) {
  SPILLWAY_CHECK(step >= 1);
  const int64_t decay_steps = spec.total_num_steps.value_or(total_steps);
  switch (spec.kind) {
    case ScheduleKind::kConstant:
    case ScheduleKind::kLinear:
    case ScheduleKind::kCosine:
      return base_lr * TransformersFactor(spec, step - 1, total_steps);
    case ScheduleKind::kWarmupLr:
    case ScheduleKind::kWarmupDecayLr:
      return WarmupLr(spec, base_lr, step - 2, decay_steps);
    case ScheduleKind::kWarmupCosineLr:
      return base_lr * WarmupCosineRatio(spec, step - 2, decay_steps);
  }
  SPILLWAY_CHECK(false);
}

}  // namespace spillway
