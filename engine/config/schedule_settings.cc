#include "engine/config/schedule_settings.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/strict_json.h"
#include "engine/numeric/quality.h"

namespace spillway {
namespace {

class ScheduleSettings : SettingPicker {
 public:
  using Kind = ScheduleSpec::Kind;

  explicit ScheduleSettings(const SettingSources& sources) : SettingPicker(sources) {}

  void Resolve();

 private:
  Kind GivenKind();  // what --schedule or --lr_scheduler_type says
  void ResolveGiven();
  void ReadArguments();
  // An argument of the schedule, where it is given: a number from `least` on, or one of words.
  void TakeNumber(const char* name, double least, double* value);
  void TakeInteger(const char* name, int64_t* value);
  template <typename T>
  void TakeWord(const char* name, const FlagChoices<T>& words, T* value);
  template <typename T>
  void TakeOptional(const char* name, std::optional<T>* value);
  void CheckFollowsMetric();
  void ResolveFile();
  void ResolveWarmup();
  void ResolveWarmupPart();
  void ResolveTotal();
  void ResolveRangeTest();
  void ResolveOneCycle();

  // A rate of the file, which --lr takes the place of.
  double Rate(const std::string& name, const Setting<double>& setting, double fallback);

  const OptimizerSpec& optimizer() const { return config_.train.optimizer; }

  ScheduleSpec& schedule_ = config_.train.schedule;
  nlohmann::json arguments_ = nlohmann::json::object();  // of --schedule-args, not yet taken
};

void ScheduleSettings::Resolve() {
  if (!flags_.schedule && file_.schedule.value) {
    if (flags_.lr_scheduler_type) {
      Note(absl::StrCat(file_.schedule.where,
                        ": the scheduler counts, as with the Trainer, and "
                        "--lr_scheduler_type ",
                        *flags_.lr_scheduler_type, " does not; --schedule would"));
    }
    if (flags_.schedule_args) {
      Invalid(absl::StrCat("--schedule-args has no meaning with the scheduler of ",
                           file_.schedule.where, ", whose block has parameters"));
    }
    ResolveFile();
  } else {
    if (file_.schedule.given()) {
      Note(absl::StrCat(file_.schedule.where, ": the scheduler gives way to --schedule"));
    }
    ResolveGiven();
  }
  Fail(ValidateSchedule(schedule_));
}

void ScheduleSettings::ResolveGiven() {
  schedule_.kind = GivenKind();
  if (file_.schedule.value) {
    RecordOverridden(std::string(ScheduleName(*file_.schedule.value)), file_.schedule.where);
  }
  ReadArguments();
  const bool plain = flags_.lr_scheduler_type == "constant";
  if (plain || FollowsMetric(schedule_.kind)) {
    if (flags_.warmup || flags_.warmup_ratio) {
      Note(absl::StrCat("the schedule ", std::string(ScheduleName(schedule_.kind)),
                        " has no warm-up, as with the Trainer",
                        plain ? ": constant_with_warmup has one" : ""));
    }
    CheckFollowsMetric();
    return;
  }
  schedule_.warmup_steps = Integer("warmup");
  ResolveWarmupPart();
}

ScheduleSettings::Kind ScheduleSettings::GivenKind() {
  FlagChoices<Kind> kinds;
  for (const Kind kind :
       {Kind::kConstant, Kind::kLinear, Kind::kCosine, Kind::kCosineWithRestarts, Kind::kPolynomial,
        Kind::kInverseSqrt, Kind::kCosineWithMinLr, Kind::kCosineWarmupWithMinLr,
        Kind::kWarmupStableDecay, Kind::kReduceOnPlateau, Kind::kGreedy}) {
    kinds.emplace_back(std::string(ScheduleName(kind)), kind);
  }
  kinds.emplace_back("constant_with_warmup", Kind::kConstant);
  return ChoiceOf<Kind>("schedule", flags_.schedule ? flags_.schedule : flags_.lr_scheduler_type,
                        {}, Kind::kConstant, kinds);
}

void ScheduleSettings::TakeNumber(const char* name, double least, double* value) {
  const auto found = arguments_.find(name);
  if (found == arguments_.end()) return;
  // The Trainer takes numbers in quotes, too.
  const bool is_number =
      found->is_number() ||
      (found->is_string() && absl::SimpleAtod(found->get_ref<const std::string&>(), value));
  if (found->is_number()) *value = found->get<double>();
  if (!is_number || !std::isfinite(*value) || *value < least) {
    Invalid(absl::StrCat("--schedule-args: ", name, " is ", found->dump(),
                         "; expected a number of ", least, " or more"));
  }
  arguments_.erase(found);
}

void ScheduleSettings::TakeInteger(const char* name, int64_t* value) {
  double number = static_cast<double>(*value);
  TakeNumber(name, 0, &number);
  if (number != std::floor(number) || number > kMostSteps) {
    Invalid(absl::StrCat("--schedule-args: ", name, " is ", number, "; expected a whole number"));
    return;
  }
  *value = static_cast<int64_t>(number);
}

template <typename T>
void ScheduleSettings::TakeWord(const char* name, const FlagChoices<T>& words, T* value) {
  const auto found = arguments_.find(name);
  if (found == arguments_.end()) return;
  const std::string word = found->is_string() ? found->get<std::string>() : found->dump();
  const absl::StatusOr<T> parsed = ChoiceFlag(absl::StrCat("--schedule-args: ", name), word, words);
  Fail(parsed.status());
  *value = parsed.value_or(*value);
  arguments_.erase(found);
}

template <typename T>
void ScheduleSettings::TakeOptional(const char* name, std::optional<T>* value) {
  const auto found = arguments_.find(name);
  if (found == arguments_.end()) return;
  if (found->is_null()) {
    arguments_.erase(found);
    return;
  }
  T number = {};
  if constexpr (std::is_same_v<T, double>) {
    TakeNumber(name, 0, &number);
  } else {
    TakeInteger(name, &number);
  }
  *value = number;
}

// transformers' lr_scheduler_kwargs: each schedule has its own.
void ScheduleSettings::ReadArguments() {
  const Text& text = flags_.schedule_args;
  const std::string name(ScheduleName(schedule_.kind));
  if (text && !text->empty() && !absl::EqualsIgnoreCase(*text, "none")) {
    const auto document = ParseStrictJson(*text, "--schedule-args");
    if (!document.ok() || !document->value.is_object()) {
      return Fail(
          BadFlagValue("--schedule-args", *text, "a JSON object, such as {\"num_cycles\": 2}"));
    }
    arguments_ = document->value;
    Record("schedule-args", arguments_, "--schedule-args");
  }
  using Curve = ScheduleSpec::Curve;
  const FlagChoices<Curve> curves = {
      {"linear", Curve::kLinear}, {"cosine", Curve::kCosine}, {"1-sqrt", Curve::kOneMinusSqrt}};
  MetricScheduleSpec& metric = schedule_.metric;
  switch (schedule_.kind) {
    case Kind::kCosineWithRestarts:
      schedule_.num_cycles = 1;
      TakeNumber("num_cycles", 0, &schedule_.num_cycles);
      break;
    case Kind::kCosine:
      TakeNumber("num_cycles", 0, &schedule_.num_cycles);
      break;
    case Kind::kPolynomial:
      TakeNumber("lr_end", 0, &schedule_.lr_end);
      TakeNumber("power", 0, &schedule_.power);
      if (optimizer().learning_rate <= schedule_.lr_end) {
        Invalid(absl::StrCat("--schedule polynomial ends with a rate of ", schedule_.lr_end,
                             " (lr_end in --schedule-args), and --lr ", optimizer().learning_rate,
                             " is not above it"));
      }
      break;
    case Kind::kInverseSqrt:
      TakeOptional("timescale", &schedule_.timescale);
      break;
    case Kind::kCosineWithMinLr:
    case Kind::kCosineWarmupWithMinLr: {
      const bool is_part = arguments_.contains("min_lr_rate");
      TakeNumber("num_cycles", 0, &schedule_.num_cycles);
      TakeOptional("min_lr", &schedule_.min_lr);
      TakeNumber("min_lr_rate", 0, &schedule_.min_lr_rate);
      if (schedule_.kind == Kind::kCosineWarmupWithMinLr) {
        TakeOptional("warmup_lr_rate", &schedule_.warmup_lr_rate);
      }
      if (is_part == schedule_.min_lr.has_value()) {
        Invalid(absl::StrCat("--schedule ", name, " needs ", is_part ? "only one" : "one",
                             " of min_lr and min_lr_rate in --schedule-args, as {\"min_lr_rate\": "
                             "0.1}"));
      }
      break;
    }
    case Kind::kWarmupStableDecay: {
      const bool given = arguments_.contains("num_decay_steps");
      TakeInteger("num_decay_steps", &schedule_.num_decay_steps);
      TakeOptional("num_stable_steps", &schedule_.num_stable_steps);
      TakeWord("warmup_type", curves, &schedule_.warmup_curve);
      TakeWord("decay_type", curves, &schedule_.decay_curve);
      TakeNumber("min_lr_ratio", 0, &schedule_.min_lr_ratio);
      TakeNumber("num_cycles", 0, &schedule_.num_cycles);
      if (!given) {
        Invalid(
            "--schedule warmup_stable_decay needs the steps of its decay: --schedule-args "
            "'{\"num_decay_steps\": N}'");
      }
      break;
    }
    case Kind::kGreedy: {
      metric.kind = MetricScheduleSpec::Kind::kGreedy;
      metric.factor = 0.95;
      metric.threshold = 1e-6;
      metric.relative_threshold = false;
      metric.min_lr = 1e-3;
      TakeInteger("warmup", &metric.warmup);
      TakeNumber("max_lr", 0, &metric.max_lr);
      TakeInteger("reset_start", &metric.reset_start);
      bool smooth = false;
      int64_t window = 50;
      TakeWord<bool>("smooth", {{"true", true}, {"false", false}}, &smooth);
      TakeInteger("window_size", &window);
      if (smooth) metric.window_size = std::max<int64_t>(1, window);
      arguments_.erase("verbose");
      [[fallthrough]];
    }
    case Kind::kReduceOnPlateau:
      TakeWord<bool>("mode", {{"min", false}, {"max", true}}, &metric.higher_is_better);
      TakeNumber("factor", 0, &metric.factor);
      TakeInteger("patience", &metric.patience);
      TakeNumber("threshold", 0, &metric.threshold);
      TakeWord<bool>("threshold_mode", {{"rel", true}, {"abs", false}}, &metric.relative_threshold);
      TakeInteger("cooldown", &metric.cooldown);
      TakeNumber("min_lr", 0, &metric.min_lr);
      TakeNumber("eps", 0, &metric.eps);
      break;
    default:
      break;
  }
  for (const auto& [key, value] : arguments_.items()) {
    Invalid(absl::StrCat("--schedule-args: the schedule ", name, " has no ", key));
  }
}

// A rate that follows evaluations needs some, and to know which way is better.
void ScheduleSettings::CheckFollowsMetric() {
  if (!FollowsMetric(schedule_.kind)) return;
  const std::string name(ScheduleName(schedule_.kind));
  if (config_.eval_data.empty() || !flags_.eval_every) {
    Invalid(absl::StrCat("--schedule ", name,
                         " follows evaluations during the run: give --eval-data FILE and "
                         "--eval-every N"));
  }
  const std::string& metric = config_.train.metric;
  const bool higher = IsBetter(metric, 1, 0);
  if (higher != schedule_.metric.higher_is_better) {
    Note(absl::StrCat("--schedule ", name, " takes a ",
                      schedule_.metric.higher_is_better ? "higher " : "lower ", metric,
                      " for better, as with the Trainer; --schedule-args '{\"mode\": \"",
                      schedule_.metric.higher_is_better ? "min" : "max", "\"}' turns it round"));
  }
}

void ScheduleSettings::ResolveFile() {
  schedule_.kind = *file_.schedule.value;
  const std::string name(ScheduleName(schedule_.kind));
  Record("schedule", name, file_.schedule.where);
  const bool test = schedule_.kind == Kind::kLrRangeTest;
  if (test || schedule_.kind == Kind::kOneCycle) {
    if (flags_.warmup || flags_.warmup_ratio) {
      Invalid(absl::StrCat("--warmup has no meaning with the scheduler ", name, " (",
                           file_.schedule.where, "): leave it out"));
    }
    return test ? ResolveRangeTest() : ResolveOneCycle();
  }
  ResolveWarmup();
  ResolveWarmupPart();
  if (schedule_.kind != Kind::kWarmupLr) ResolveTotal();
}

// A fraction of steps that the data decides.
void ScheduleSettings::ResolveWarmupPart() {
  if (!flags_.warmup_ratio) return;
  schedule_.warmup_part = Pick<double>(
      "warmup-ratio", flags_.warmup_ratio, {}, 0,
      [](const std::string& flag, const std::string& t) { return NumberFlag(flag, t, 0, 1); });
}

void ScheduleSettings::ResolveWarmup() {
  // "auto" means the trainer's own --warmup, which is 0 unless given.
  const int64_t warmup_default = file_.warmup_num_steps.is_auto() ? 0 : 1000;
  schedule_.warmup_steps = Integer("warmup", file_.warmup_num_steps, warmup_default);
  schedule_.warmup_type = file_.warmup_type.value.value_or(ScheduleSpec::WarmupType::kLog);
  Record("warmup_type", schedule_.warmup_type == ScheduleSpec::WarmupType::kLog ? "log" : "linear",
         SourceOf("", {}, file_.warmup_type));
  if (schedule_.kind == Kind::kWarmupCosineLr) {
    schedule_.warmup_min_ratio = FromFile<double>("warmup_min_ratio", file_.warmup_min_ratio, 0);
    schedule_.cos_min_ratio = FromFile<double>("cos_min_ratio", file_.cos_min_ratio, 0.0001);
    return;
  }
  schedule_.warmup_min_lr = FromFile<double>("warmup_min_lr", file_.warmup_min_lr, 0);
  const bool decay_default = schedule_.kind == Kind::kWarmupDecayLr && !file_.warmup_max_lr.given();
  schedule_.warmup_max_lr =
      Rate("warmup_max_lr", file_.warmup_max_lr, decay_default ? 0.001 : optimizer().learning_rate);
}

// In DeepSpeed the scheduler's rate wins over the optimizer's; here --lr wins over both.
double ScheduleSettings::Rate(const std::string& name, const Setting<double>& setting,
                              double fallback) {
  const double rate = flags_.lr ? optimizer().learning_rate : setting.value.value_or(fallback);
  Record(name, rate, SourceOf("lr", flags_.lr, setting));
  if (flags_.lr && setting.value) {
    RecordOverridden(*setting.value, setting.where);
    Note(absl::StrCat(setting.where, ": ", name, " gives way to --lr"));
  }
  return rate;
}

void ScheduleSettings::ResolveTotal() {
  schedule_.total_num_steps = file_.total_num_steps.value;
  Record("total_num_steps",
         schedule_.total_num_steps ? nlohmann::json(*schedule_.total_num_steps) : nullptr,
         schedule_.total_num_steps ? file_.total_num_steps.where : "the run's steps");
}

void ScheduleSettings::ResolveRangeTest() {
  const DeepSpeedConfig::RangeTest& file = file_.range_test;
  ScheduleSpec::RangeTest& test = schedule_.range_test;
  test.min_lr = Rate("lr_range_test_min_lr", file.min_lr, 1e-3);
  test.step_size = FromFile<int64_t>("lr_range_test_step_size", file.step_size, test.step_size);
  test.step_rate = FromFile<double>("lr_range_test_step_rate", file.step_rate, test.step_rate);
  test.staircase = FromFile<bool>("lr_range_test_staircase", file.staircase, false);
}

void ScheduleSettings::ResolveOneCycle() {
  const DeepSpeedConfig::OneCycle& file = file_.one_cycle;
  ScheduleSpec::OneCycle& cycle = schedule_.one_cycle;
  cycle.min_lr = FromFile<double>("cycle_min_lr", file.min_lr, 0);
  cycle.max_lr = Rate("cycle_max_lr", file.max_lr, 0);
  cycle.first_steps =
      FromFile<int64_t>("cycle_first_step_size", file.first_steps, cycle.first_steps);
  cycle.second_steps =
      FromFile<int64_t>("cycle_second_step_size", file.second_steps, cycle.first_steps);
  cycle.first_stairs = FromFile<int64_t>("cycle_first_stair_count", file.first_stairs, 0);
  cycle.second_stairs =
      FromFile<int64_t>("cycle_second_stair_count", file.second_stairs, cycle.first_stairs);
  cycle.decay_steps = FromFile<int64_t>("decay_step_size", file.decay_steps, 0);
  cycle.decay_rate = FromFile<double>("decay_lr_rate", file.decay_rate, 0);

  cycle.moves_betas = file.moves_betas.value.value_or(true);
  const std::string where =
      file.moves_betas.given() ? file.moves_betas.where : file_.schedule.where;
  if (cycle.moves_betas && optimizer().kind == OptimizerSpec::Kind::kSgd) {
    cycle.moves_betas = false;
    Note(absl::StrCat(where, ": cycle_momentum moves betas, and SGD has none (as in DeepSpeed)"));
  } else if (cycle.moves_betas && flags_.betas) {
    cycle.moves_betas = false;
    Note(absl::StrCat(where, ": cycle_momentum gives way to --betas"));
  } else if (cycle.moves_betas && file_.betas.value) {
    Note(absl::StrCat(file_.betas.where,
                      ": betas give way to the scheduler's cycle_momentum (as in DeepSpeed)"));
  }
  Record("cycle_momentum", cycle.moves_betas, SourceOf("", {}, file.moves_betas));
  if (!cycle.moves_betas) return;
  cycle.min_beta1 = FromFile<double>("cycle_min_mom", file.min_beta1, cycle.min_beta1);
  cycle.max_beta1 = FromFile<double>("cycle_max_mom", file.max_beta1, cycle.max_beta1);
}

}  // namespace

void ResolveScheduleSettings(const SettingSources& sources) { ScheduleSettings(sources).Resolve(); }

}  // namespace spillway
