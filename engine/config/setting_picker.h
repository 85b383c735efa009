// How a setting of the run is found: the flag, or else the file's value, or else the default; and
// recorded, with which of them it was.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/flag_value.h"
#include "engine/config/deepspeed_config.h"
#include "engine/config/resolved_config.h"
#include "engine/config/train_flag_table.h"
#include "engine/ranks/launch_environment.h"
#include "io/base/check.h"

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

  // parse(flag name, text) -> StatusOr<T>; shown(T): the value for config.resolved.json.
  template <typename T, typename Parse>
  T Pick(const std::string& name, const Setting<T>& setting, T fallback, Parse parse) {
    return Pick<T>(name, Given(name), setting, std::move(fallback), parse);
  }
  template <typename T, typename Parse, typename Show = std::identity>
  T Pick(const std::string& name, const Text& flag, const Setting<T>& setting, T fallback,
         Parse parse, Show shown = {}) {
    T value = setting.value.value_or(fallback);
    if (flag) {
      absl::StatusOr<T> parsed = parse(FlagName(name), *flag);
      if (parsed.ok()) {
        value = *std::move(parsed);
      } else {
        Fail(parsed.status());
      }
    }
    Record(name, shown(value), SourceOf(name, flag, setting));
    if (flag && setting.value) RecordOverridden(shown(*setting.value), setting.where);
    return value;
  }

  // Settings of the table (engine/config/train_flag_table.h) by their names: "micro-batch". Bounds
  // are the table's; so is the default, unless `fallback` has another.
  int64_t Integer(const std::string& name, const Setting<int64_t>& setting = {},
                  std::optional<int64_t> fallback = {});
  double Number(const std::string& name, const Setting<double>& setting = {},
                std::optional<double> fallback = {});
  bool Switch(const std::string& name);
  uint64_t Size(const std::string& name);  // 0: not said, and without a default
  std::string String(const std::string& name, const std::string& fallback = "");
  // The names between commas.
  std::vector<std::string> Names(const std::string& name);

  // One of the words of the setting's type, which mean `values` in their order, or one of `more`.
  template <typename T>
  T Choice(const std::string& name, const std::vector<T>& values, const Setting<T>& setting = {},
           std::optional<T> fallback = {}, const FlagChoices<T>& more = {},
           WordCase word_case = WordCase::kCounts) {
    const FlagChoices<T> words = Words(name, values);
    if (!fallback) fallback = ChoiceFlag(name, DefaultOf(name), words).value_or(values[0]);
    FlagChoices<T> choices = words;
    choices.insert(choices.end(), more.begin(), more.end());
    return ChoiceOf<T>(name, Given(name), setting, *fallback, choices, word_case);
  }

  template <typename T>
  static FlagChoices<T> Words(const std::string& name, const std::vector<T>& values) {
    const std::vector<std::string> words = absl::StrSplit(RowOf(name).type, '|');
    SPILLWAY_CHECK(words.size() == values.size());
    FlagChoices<T> choices;
    for (size_t i = 0; i < words.size(); ++i) choices.emplace_back(words[i], values[i]);
    return choices;
  }

  // A value that the file alone has.
  template <typename T>
  T FromFile(const std::string& name, const Setting<T>& setting, T fallback) {
    Record(name, setting.value.value_or(fallback), SourceOf(name, {}, setting));
    return setting.value.value_or(fallback);
  }
  // One of the words, given by another name or with a default of its own.
  template <typename T>
  T ChoiceOf(const std::string& name, const Text& flag, const Setting<T>& setting, T fallback,
             const FlagChoices<T>& choices, WordCase word_case = WordCase::kCounts) {
    const auto parse = [&](const std::string& dashed, const std::string& text) {
      return ChoiceFlag(dashed, text, choices, word_case);
    };
    const auto word_of = [&](T wanted) -> std::string {
      for (const auto& [word, choice] : choices) {
        if (choice == wanted) return word;
      }
      return "";
    };
    return Pick<T>(name, flag, setting, fallback, parse, word_of);
  }

  // The text of a setting on the command line; none: it is not given.
  const Text& Given(const std::string& name) const;
  // The value of the table's default, as text; "" without one.
  static std::string DefaultOf(const std::string& name);
  static const TrainFlag& RowOf(const std::string& name);

  const TrainFlags& flags_;
  const DeepSpeedConfig& file_;
  const Launch& launch_;
  const bool has_file_;
  RunConfig& config_;

 private:
  std::vector<absl::Status>& errors_;
};

}  // namespace spillway
