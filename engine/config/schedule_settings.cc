#include "engine/config/schedule_settings.h"

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

class ScheduleSettings : SettingPicker {
 public:
  using Kind = ScheduleSpec::Kind;

  explicit ScheduleSettings(const SettingSources& sources) : SettingPicker(sources) {}

  void Resolve();

 private:
  Kind OwnKind();  // what --schedule says
  void ResolveFile();
  void ResolveWarmup();
  void ResolveTotal();
  void ResolveRangeTest();
  void ResolveOneCycle();

  // A rate of the file, which --lr takes the place of.
  double Rate(const std::string& name, const Setting<double>& setting, double fallback);

  const OptimizerSpec& optimizer() const { return config_.train.optimizer; }

  ScheduleSpec& schedule_ = config_.train.schedule;
};

void ScheduleSettings::Resolve() {
  if (!flags_.schedule && file_.schedule.value) {
    ResolveFile();
  } else {
    if (file_.schedule.given()) {
      Note(absl::StrCat(file_.schedule.where, ": the scheduler gives way to --schedule"));
    }
    schedule_.kind = OwnKind();
    if (file_.schedule.value) {
      RecordOverridden(std::string(ScheduleName(*file_.schedule.value)), file_.schedule.where);
    }
    schedule_.warmup_steps = Integer("warmup", flags_.warmup, {}, 0, 0, kMostSteps);
  }
  if (flags_.warmup_ratio) {  // of steps that the data decides
    schedule_.warmup_part = Number("warmup-ratio", flags_.warmup_ratio, {}, 0, 0, 1);
  }
  Fail(ValidateSchedule(schedule_));
}

ScheduleSettings::Kind ScheduleSettings::OwnKind() {
  // The Trainer's others; the first is of a DeepSpeed file here.
  if (flags_.schedule == "cosine_with_min_lr") {
    Invalid(
        "--schedule cosine_with_min_lr: in a --config file it is the scheduler WarmupCosineLR with "
        "cos_min_ratio (docs/CONFIG.md)");
    return Kind::kConstant;
  }
  return Choice<Kind>("schedule", flags_.schedule, {}, Kind::kConstant,
                      {{"constant", Kind::kConstant},
                       {"linear", Kind::kLinear},
                       {"cosine", Kind::kCosine},
                       {"constant_with_warmup", Kind::kConstant}});
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
  if (schedule_.kind != Kind::kWarmupLr) ResolveTotal();
}

void ScheduleSettings::ResolveWarmup() {
  // "auto" means the trainer's own --warmup, which is 0 unless given.
  const int64_t warmup_default = file_.warmup_num_steps.is_auto() ? 0 : 1000;
  schedule_.warmup_steps =
      Integer("warmup", flags_.warmup, file_.warmup_num_steps, warmup_default, 0, kMostSteps);
  schedule_.warmup_type = file_.warmup_type.value.value_or(ScheduleSpec::WarmupType::kLog);
  Record("warmup_type", schedule_.warmup_type == ScheduleSpec::WarmupType::kLog ? "log" : "linear",
         SourceOf("", {}, file_.warmup_type));
  if (schedule_.kind == Kind::kWarmupCosineLr) {
    schedule_.warmup_min_ratio =
        Number("warmup_min_ratio", {}, file_.warmup_min_ratio, 0, 0, kHuge);
    schedule_.cos_min_ratio = Number("cos_min_ratio", {}, file_.cos_min_ratio, 0.0001, 0, kHuge);
    return;
  }
  schedule_.warmup_min_lr = Number("warmup_min_lr", {}, file_.warmup_min_lr, 0, 0, kHuge);
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
  test.step_size =
      Integer("lr_range_test_step_size", {}, file.step_size, test.step_size, 1, kMostSteps);
  test.step_rate = Number("lr_range_test_step_rate", {}, file.step_rate, test.step_rate, 0, kHuge);
  test.staircase = file.staircase.value.value_or(false);
  Record("lr_range_test_staircase", test.staircase, SourceOf("", {}, file.staircase));
}

void ScheduleSettings::ResolveOneCycle() {
  const DeepSpeedConfig::OneCycle& file = file_.one_cycle;
  ScheduleSpec::OneCycle& cycle = schedule_.one_cycle;
  const auto integer = [&](const char* name, const Setting<int64_t>& setting, int64_t fallback,
                           int64_t least) {
    return Integer(name, {}, setting, fallback, least, kMostSteps);
  };
  cycle.min_lr = Number("cycle_min_lr", {}, file.min_lr, 0, 0, kHuge);
  cycle.max_lr = Rate("cycle_max_lr", file.max_lr, 0);
  cycle.first_steps = integer("cycle_first_step_size", file.first_steps, cycle.first_steps, 1);
  cycle.second_steps = integer("cycle_second_step_size", file.second_steps, cycle.first_steps, 0);
  cycle.first_stairs = integer("cycle_first_stair_count", file.first_stairs, 0, 0);
  cycle.second_stairs =
      integer("cycle_second_stair_count", file.second_stairs, cycle.first_stairs, 0);
  cycle.decay_steps = integer("decay_step_size", file.decay_steps, 0, 0);
  cycle.decay_rate = Number("decay_lr_rate", {}, file.decay_rate, 0, 0, kHuge);

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
  cycle.min_beta1 = Number("cycle_min_mom", {}, file.min_beta1, cycle.min_beta1, 0, 1, false);
  cycle.max_beta1 = Number("cycle_max_mom", {}, file.max_beta1, cycle.max_beta1, 0, 1, false);
}

}  // namespace

void ResolveScheduleSettings(const SettingSources& sources) { ScheduleSettings(sources).Resolve(); }

}  // namespace spillway
