// Parses the text of a flag into a value. Every error is kInvalidArgument and names the flag, the
// given text and the accepted values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace spillway {

// `flag` is the name with its dashes: "--steps".

// A whole number, possibly written as a count ("100M").
absl::StatusOr<int64_t> IntegerFlag(absl::string_view flag, const std::string& text, int64_t low,
                                    int64_t high);

// Any uint64.
absl::StatusOr<uint64_t> SeedFlag(absl::string_view flag, const std::string& text);

// A finite number; `high_included` false: `high` itself is refused.
absl::StatusOr<double> NumberFlag(absl::string_view flag, const std::string& text, double low,
                                  double high, bool high_included = true);

// "4GiB", "512MiB", ...; at least one byte.
absl::StatusOr<uint64_t> SizeFlag(absl::string_view flag, const std::string& text);

// A time in seconds: "600", "90s", "5m", "2h"; above 0, at most a year.
absl::StatusOr<double> DurationFlag(absl::string_view flag, const std::string& text);

// The elements of a comma-separated list; none may be empty.
absl::StatusOr<std::vector<std::string>> ListFlag(absl::string_view flag, const std::string& text);

absl::Status BadFlagValue(absl::string_view flag, absl::string_view text,
                          absl::string_view accepted);

// Combines errors: a single one is returned as it is, several become "3 things are in the way:" and
// a line each, with the code of the first. OK if there are none.
absl::Status AllErrors(const std::vector<absl::Status>& errors);

template <typename T>
using FlagChoices = std::vector<std::pair<std::string, T>>;

enum class WordCase { kCounts, kIgnored };

// The value of the choice that `text` names.
template <typename T>
absl::StatusOr<T> ChoiceFlag(absl::string_view flag, const std::string& text,
                             const FlagChoices<T>& choices,
                             WordCase word_case = WordCase::kCounts) {
  std::string accepted;
  for (const auto& [name, value] : choices) {
    const bool same_letters = word_case == WordCase::kIgnored && absl::EqualsIgnoreCase(name, text);
    if (name == text || same_letters) return value;
    accepted += (accepted.empty() ? "" : ", ") + name;
  }
  return BadFlagValue(flag, text, accepted);
}

}  // namespace spillway
