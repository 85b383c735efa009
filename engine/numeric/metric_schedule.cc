#include "engine/numeric/metric_schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

namespace spillway {
namespace {

using Kind = MetricScheduleSpec::Kind;

bool IsBetter(const MetricScheduleSpec& spec, double metric, const std::optional<double>& best) {
  if (!best) return std::isfinite(metric);
  const double threshold = spec.threshold;
  if (spec.higher_is_better) {
    return metric > (spec.relative_threshold ? *best * (threshold + 1.0) : *best + threshold);
  }
  return metric < (spec.relative_threshold ? *best * (1.0 - threshold) : *best - threshold);
}

void Lower(const MetricScheduleSpec& spec, double base_lr, MetricScheduleState& state) {
  const double old = state.rate.value_or(base_lr);
  const double lower = std::max(old * spec.factor, spec.min_lr);
  if (old - lower > spec.eps) state.rate = lower;
  if (spec.kind != Kind::kGreedy || state.rate.value_or(base_lr) > spec.min_lr) return;
  if (++state.falls_at_least_rate >= spec.reset_start) state = MetricScheduleState();
}

void Raise(const MetricScheduleSpec& spec, double base_lr, MetricScheduleState& state) {
  const double old = state.rate.value_or(base_lr);
  const double higher = std::min(old / spec.factor, spec.max_lr);
  if (higher - old > spec.eps) state.rate = higher;
  state.falls_at_least_rate = 0;
}

// ReduceLROnPlateau.step
void FollowPlateau(const MetricScheduleSpec& spec, double base_lr, double metric,
                   MetricScheduleState& state) {
  if (IsBetter(spec, metric, state.best)) {
    state.best = metric;
    state.bad = 0;
  } else {
    ++state.bad;
  }
  if (state.cooldown_left > 0) {
    --state.cooldown_left;
    state.bad = 0;
  }
  if (state.bad <= spec.patience) return;
  Lower(spec, base_lr, state);
  state.cooldown_left = spec.cooldown;
  state.bad = 0;
}

// GreedyLR.step
void FollowGreedily(const MetricScheduleSpec& spec, double base_lr, double metric,
                    MetricScheduleState& state) {
  for (int64_t* const pause : {&state.cooldown_left, &state.warmup_left}) {
    if (*pause == 0) continue;
    --*pause;
    state.bad = state.good = 0;
    return;
  }
  if (IsBetter(spec, metric, state.best)) {
    state.best = metric;
    state.bad = 0;
    ++state.good;
  } else {
    ++state.bad;
    state.good = 0;
  }
  if (state.good > spec.patience) {
    Raise(spec, base_lr, state);
    state.warmup_left = spec.warmup;
    state.good = 0;
  } else if (state.bad > spec.patience) {
    Lower(spec, base_lr, state);
    state.cooldown_left = spec.cooldown;
    state.bad = 0;
  }
}

}  // namespace

void FollowMetric(const MetricScheduleSpec& spec, double base_lr, double metric,
                  MetricScheduleState& state) {
  if (spec.window_size > 0) {
    state.window.push_back(metric);
    state.window_sum += metric;
    if (static_cast<int64_t>(state.window.size()) > spec.window_size) {
      state.window_sum -= state.window.front();
      state.window.erase(state.window.begin());
    }
    metric = state.window_sum / static_cast<double>(state.window.size());
  }
  (spec.kind == Kind::kGreedy ? FollowGreedily : FollowPlateau)(spec, base_lr, metric, state);
}

nlohmann::json ToJson(const MetricScheduleState& state) {
  nlohmann::json json = {{"bad", state.bad},
                         {"good", state.good},
                         {"cooldown_left", state.cooldown_left},
                         {"warmup_left", state.warmup_left},
                         {"falls_at_least_rate", state.falls_at_least_rate},
                         {"window", state.window},
                         {"window_sum", state.window_sum}};
  if (state.rate) json["rate"] = *state.rate;
  if (state.best) json["best"] = *state.best;
  return json;
}

MetricScheduleState MetricScheduleStateFromJson(const nlohmann::json& json) {
  MetricScheduleState state;
  json.at("bad").get_to(state.bad);
  json.at("good").get_to(state.good);
  json.at("cooldown_left").get_to(state.cooldown_left);
  json.at("warmup_left").get_to(state.warmup_left);
  json.at("falls_at_least_rate").get_to(state.falls_at_least_rate);
  json.at("window").get_to(state.window);
  json.at("window_sum").get_to(state.window_sum);
  if (json.contains("rate")) state.rate = json.at("rate").get<double>();
  if (json.contains("best")) state.best = json.at("best").get<double>();
  return state;
}

}  // namespace spillway
