#include "engine/config/setting_picker.h"

namespace spillway {

int64_t SettingPicker::Integer(const std::string& name, const Text& flag,
                               const Setting<int64_t>& setting, int64_t fallback, int64_t low,
                               int64_t high) {
  return Pick(name, flag, setting, fallback, [&](const std::string& dashed, const std::string& t) {
    return IntegerFlag(dashed, t, low, high);
  });
}

double SettingPicker::Number(const std::string& name, const Text& flag,
                             const Setting<double>& setting, double fallback, double low,
                             double high, bool high_included) {
  return Pick(name, flag, setting, fallback, [&](const std::string& dashed, const std::string& t) {
    return NumberFlag(dashed, t, low, high, high_included);
  });
}

std::string SettingPicker::String(const std::string& name, const Text& flag,
                                  const std::string& fallback) {
  if (flag && flag->empty()) Invalid(absl::StrCat(FlagName(name), " is empty"));
  const std::string value = flag.value_or(fallback);
  Record(name, value, flag ? FlagName(name) : "default");
  return value;
}

}  // namespace spillway
