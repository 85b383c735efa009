#include "engine/base/flag_value.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/size.h"
#include "io/base/status.h"

namespace spillway {

absl::Status BadFlagValue(absl::string_view flag, absl::string_view text,
                          absl::string_view accepted) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " '", text, "' is not accepted: give ", accepted));
}

absl::Status AllErrors(const std::vector<absl::Status>& errors) {
  std::vector<absl::string_view> lines;
  for (const absl::Status& error : errors) {
    if (std::find(lines.begin(), lines.end(), error.message()) == lines.end()) {
      lines.push_back(error.message());
    }
  }
  if (lines.empty()) return absl::OkStatus();
  if (lines.size() == 1) return errors[0];
  return absl::Status(errors[0].code(), absl::StrCat(lines.size(), " things are in the way:\n  ",
                                                     absl::StrJoin(lines, "\n  ")));
}

absl::StatusOr<int64_t> IntegerFlag(absl::string_view flag, const std::string& text, int64_t low,
                                    int64_t high) {
  int64_t value = 0;
  bool valid = absl::SimpleAtoi(text, &value);
  if (!valid) {
    const absl::StatusOr<uint64_t> count = ParseCount(text);
    valid = count.ok() && *count <= static_cast<uint64_t>(high);
    if (valid) value = static_cast<int64_t>(*count);
  }
  if (valid && value >= low && value <= high) return value;
  constexpr int64_t kUnbounded = int64_t{1} << 31;
  return BadFlagValue(flag, text,
                      high >= kUnbounded ? absl::StrCat("a whole number of ", low, " or more")
                                         : absl::StrCat("a whole number from ", low, " to ", high));
}

absl::StatusOr<uint64_t> SeedFlag(absl::string_view flag, const std::string& text) {
  uint64_t seed = 0;
  if (absl::SimpleAtoi(text, &seed)) return seed;
  return BadFlagValue(flag, text, "a whole number from 0 to 2^64 - 1");
}

absl::StatusOr<double> NumberFlag(absl::string_view flag, const std::string& text, double low,
                                  double high, bool high_included) {
  double value = 0;
  const bool valid = absl::SimpleAtod(text, &value) && std::isfinite(value);
  if (valid && value >= low && (high_included ? value <= high : value < high)) return value;
  constexpr double kUnbounded = 1e30;
  std::string accepted = absl::StrCat("a number of ", low, " or more");
  if (high < kUnbounded) {
    accepted = absl::StrCat("a number from ", low, high_included ? " to " : " to below ", high);
  }
  return BadFlagValue(flag, text, accepted);
}

absl::StatusOr<uint64_t> SizeFlag(absl::string_view flag, const std::string& text) {
  const absl::StatusOr<uint64_t> size = ParseSize(text);
  if (!size.ok()) return Annotate(size.status(), flag);
  if (*size == 0) return BadFlagValue(flag, text, "a size above 0, such as 512MiB");
  return *size;
}

absl::StatusOr<double> DurationFlag(absl::string_view flag, const std::string& text) {
  constexpr double kYearSeconds = 366.0 * 24 * 3600;
  const std::pair<char, double> units[] = {{'s', 1}, {'m', 60}, {'h', 3600}};
  absl::string_view number = text;
  double scale = 1;
  for (const auto& [letter, seconds] : units) {
    if (number.empty() || number.back() != letter) continue;
    number.remove_suffix(1);
    scale = seconds;
    break;
  }
  double value = 0;
  const bool digits = !number.empty() && number.find_first_not_of("0123456789.") == number.npos;
  if (digits && absl::SimpleAtod(number, &value) && value > 0 && value * scale <= kYearSeconds) {
    return value * scale;
  }
  return BadFlagValue(flag, text, "a time such as 600 (seconds), 90s, 5m or 2h");
}

absl::StatusOr<std::vector<std::string>> ListFlag(absl::string_view flag, const std::string& text) {
  std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    if (part.empty()) {
      return BadFlagValue(flag, text, "one value, or several separated by single commas");
    }
  }
  return parts;
}

}  // namespace spillway
