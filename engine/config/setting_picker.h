// How a setting of the run is found: the flag, or else the file's value, or else the default; and
// recorded, with which of them it was.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/flag_value.h"
#include "engine/config/deepspeed_config.h"
#include "engine/config/resolved_config.h"
#include "engine/config/train_flags.h"
#include "engine/ranks/launch_environment.h"

namespace spillway {

// Where settings come from and what becomes of them; all of it outlives the pickers.
struct SettingSources {
  const TrainFlags& flags;
  const DeepSpeedConfig& file;  // holds no settings when there is no --config
  const Launch& launch;
  RunConfig& config;
  std::vector<absl::Status>& errors;  // all of them
};

// The base of what resolves a group of settings.
class SettingPicker {
 protected:
  using Text = TrainFlags::Text;

  static constexpr int64_t kMostSteps = int64_t{1} << 31;
  static constexpr double kHuge = 1e30;  // as a limit: none

  explicit SettingPicker(const SettingSources& sources)
      : flags_(sources.flags),
        file_(sources.file),
        launch_(sources.launch),
        has_file_(sources.flags.config.has_value()),
        config_(sources.config),
        errors_(sources.errors) {}

  void Fail(absl::Status status) {
    if (!status.ok()) errors_.push_back(std::move(status));
  }
  void Invalid(absl::string_view message) { Fail(absl::InvalidArgumentError(message)); }
  void Note(std::string line) { config_.notes.push_back(std::move(line)); }
  void Record(std::string name, nlohmann::json value, std::string source) {
    config_.values.push_back({std::move(name), std::move(value), std::move(source)});
  }
  // Of the last recorded value: what the file says instead.
  void RecordOverridden(nlohmann::json value, std::string source) {
    config_.values.back().file_value = std::move(value);
    config_.values.back().file_source = std::move(source);
  }

  static std::string FlagName(const std::string& name) { return "--" + name; }

  template <typename T>
  std::string SourceOf(const std::string& name, const Text& flag, const Setting<T>& setting) const {
    if (flag) return FlagName(name);
    if (setting.value) return setting.where;
    return setting.is_auto() ? absl::StrCat("default (auto in ", setting.where, ")") : "default";
  }

  // parse(flag name, text) -> StatusOr<T>.
  template <typename T, typename Parse>
  T Pick(const std::string& name, const Text& flag, const Setting<T>& setting, T fallback,
         Parse parse) {
    T value = setting.value.value_or(fallback);
    if (flag) {
      absl::StatusOr<T> parsed = parse(FlagName(name), *flag);
      if (parsed.ok()) {
        value = *std::move(parsed);
      } else {
        Fail(parsed.status());
      }
    }
    Record(name, value, SourceOf(name, flag, setting));
    if (flag && setting.value) RecordOverridden(*setting.value, setting.where);
    return value;
  }

  int64_t Integer(const std::string& name, const Text& flag, const Setting<int64_t>& setting,
                  int64_t fallback, int64_t low, int64_t high);
  double Number(const std::string& name, const Text& flag, const Setting<double>& setting,
                double fallback, double low, double high, bool high_included = true);
  std::string String(const std::string& name, const Text& flag, const std::string& fallback);

  template <typename T>
  T Choice(const std::string& name, const Text& flag, const Setting<T>& setting, T fallback,
           const FlagChoices<T>& choices, WordCase word_case = WordCase::kCounts) {
    T value = setting.value.value_or(fallback);
    if (flag) {
      const absl::StatusOr<T> parsed = ChoiceFlag(FlagName(name), *flag, choices, word_case);
      if (parsed.ok()) {
        value = *parsed;
      } else {
        Fail(parsed.status());
      }
    }
    const auto word_of = [&](T wanted) -> std::string {
      for (const auto& [word, choice] : choices) {
        if (choice == wanted) return word;
      }
      return "";
    };
    Record(name, word_of(value), SourceOf(name, flag, setting));
    if (flag && setting.value) RecordOverridden(word_of(*setting.value), setting.where);
    return value;
  }

  const TrainFlags& flags_;
  const DeepSpeedConfig& file_;
  const Launch& launch_;
  const bool has_file_;
  RunConfig& config_;

 private:
  std::vector<absl::Status>& errors_;
};

}  // namespace spillway
