// The work behind ResolveRunConfig: one method a group of settings. Each takes the flag,
// or else the file's value, or else the default, and records which it was.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/flag_value.h"
#include "engine/config/deepspeed_config.h"
#include "engine/config/run_config.h"

namespace spillway {

class RunConfigResolver {
 public:
  // `file` holds no settings when there is no --config.
  RunConfigResolver(const TrainFlags& flags, const DeepSpeedConfig& file, const Launch& launch)
      : flags_(flags), file_(file), launch_(launch), has_file_(flags.config.has_value()) {}

  absl::StatusOr<RunConfig> Resolve() {
    ResolveInputs();
    ResolveRanks();
    ResolveBatch();
    ResolveLength();
    ResolvePrecision();
    ResolveOptimizer();
    ResolveSchedule();
    ResolveUpdate();
    ResolveMachine();
    ResolvePlacement();
    ResolveCommits();
    ResolveTrace();
    ResolveWrites();
    NoteOtherKeys();
    if (!status_.ok()) return status_;
    return std::move(config_);
  }

 private:
  using Text = TrainFlags::Text;

  // What the run trains.
  void ResolveInputs();
  void ResolveRanks();
  void ResolveShard();
  void ResolveBatch();
  void ResolveLength();
  void ResolvePrecision();
  void ResolveOptimizer();
  void ResolveAdam();
  void ResolveSgd();
  void ResolveSchedule();
  void ResolveFileSchedule();
  void ResolveUpdate();
  // Where it runs.
  void ResolveMachine();
  void ResolvePlacement();
  Offload ResolveOffload(const std::string& name, const Text& flag, const Text& general,
                         const Setting<Offload>& setting);
  void ResolveSwapPaths();
  void ResolveCommits();
  void ResolveTrace();
  void ResolveWrites();
  void NoteOtherKeys();

  // The first error counts.
  void Fail(absl::Status status) { status_.Update(std::move(status)); }
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
  RunConfig config_;
  absl::Status status_;
};

}  // namespace spillway
