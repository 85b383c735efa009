#include "engine/config/setting_picker.h"

#include "absl/strings/numbers.h"
#include "engine/config/trainer_flags.h"

namespace spillway {

const TrainFlag& SettingPicker::RowOf(const std::string& name) {
  const TrainFlag* const row = FindTrainFlag(FlagName(name));
  SPILLWAY_CHECK(row != nullptr);
  return *row;
}

const TrainFlags::Text& SettingPicker::Given(const std::string& name) const {
  return flags_.*std::get<Text TrainFlags::*>(RowOf(name).field);
}

std::string SettingPicker::DefaultOf(const std::string& name) {
  const absl::string_view shown = RowOf(name).fallback;
  return std::string(shown.substr(0, shown.find_first_of(":;")));
}

int64_t SettingPicker::Integer(const std::string& name, const Setting<int64_t>& setting,
                               std::optional<int64_t> fallback) {
  const TrainFlag::Bounds& bounds = RowOf(name).bounds;
  const auto high = static_cast<int64_t>(std::min<double>(bounds.high, kMostSteps));
  int64_t otherwise = 0;
  if (!absl::SimpleAtoi(DefaultOf(name), &otherwise)) otherwise = 0;
  return Pick<int64_t>(name, setting, fallback.value_or(otherwise),
                       [&](const std::string& dashed, const std::string& text) {
                         return IntegerFlag(dashed, text, static_cast<int64_t>(bounds.low), high);
                       });
}

double SettingPicker::Number(const std::string& name, const Setting<double>& setting,
                             std::optional<double> fallback) {
  const TrainFlag::Bounds& bounds = RowOf(name).bounds;
  double otherwise = 0;
  if (!absl::SimpleAtod(DefaultOf(name), &otherwise)) otherwise = 0;
  return Pick<double>(name, setting, fallback.value_or(otherwise),
                      [&](const std::string& dashed, const std::string& text) {
                        return NumberFlag(dashed, text, bounds.low, bounds.high,
                                          bounds.high_included);
                      });
}

bool SettingPicker::Switch(const std::string& name) {
  return Pick<bool>(name, {}, false, [](const std::string& dashed, const Text& text) {
    return SwitchFlag(dashed, text);
  });
}

uint64_t SettingPicker::Size(const std::string& name) {
  return Pick<uint64_t>(name, {}, SizeFlag(name, DefaultOf(name)).value_or(0), SizeFlag);
}

std::string SettingPicker::String(const std::string& name, const std::string& fallback) {
  const Text& flag = Given(name);
  if (flag && flag->empty()) Invalid(absl::StrCat(FlagName(name), " is empty"));
  const std::string value = flag.value_or(fallback);
  Record(name, value, flag ? FlagName(name) : "default");
  return value;
}

std::vector<std::string> SettingPicker::Names(const std::string& name) {
  return Pick<std::vector<std::string>>(name, {}, {}, ListFlag);
}

}  // namespace spillway
