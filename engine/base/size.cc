#include "engine/base/size.h"

#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

constexpr std::array<char, 4> kPrefixes = {'k', 'm', 'g', 't'};

// The power of 1000 or 1024 of a prefix.
std::optional<int> PrefixPower(char prefix) {
  for (size_t i = 0; i < kPrefixes.size(); ++i) {
    if (absl::ascii_tolower(prefix) == kPrefixes[i]) return static_cast<int>(i) + 1;
  }
  return std::nullopt;
}

uint64_t Power(uint64_t base, int exponent) {
  uint64_t result = 1;
  for (int i = 0; i < exponent; ++i) result *= base;
  return result;
}

// Removes digits[.digits][e[+]digits] from the front of `text`.
std::optional<std::string> TakeNumber(absl::string_view* text, bool exponent) {
  size_t end = 0;
  const auto digits = [&] {
    const size_t begin = end;
    while (end < text->size() && absl::ascii_isdigit((*text)[end])) ++end;
    return end - begin;
  };
  if (digits() == 0) return std::nullopt;
  if (end < text->size() && (*text)[end] == '.') {
    ++end;
    if (digits() == 0) return std::nullopt;
  }
  if (exponent && end < text->size() && absl::ascii_tolower((*text)[end]) == 'e') {
    ++end;
    if (end < text->size() && (*text)[end] == '+') ++end;
    if (digits() == 0) return std::nullopt;
  }
  std::string number(text->substr(0, end));
  text->remove_prefix(end);
  return number;
}

// number * scale, if that is a whole number below 2^64.
std::optional<uint64_t> Scaled(const std::string& number, uint64_t scale) {
  uint64_t whole = 0;
  if (absl::SimpleAtoi(number, &whole)) {
    uint64_t result = 0;
    if (__builtin_mul_overflow(whole, scale, &result)) return std::nullopt;
    return result;
  }
  double value = 0;
  if (!absl::SimpleAtod(number, &value)) return std::nullopt;
  value *= static_cast<double>(scale);
  if (!(value < 0x1p64) || value != std::floor(value)) return std::nullopt;
  return static_cast<uint64_t>(value);
}

absl::Status BadSize(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is not a size: write 512MiB or 4GiB (binary; 4G and 1M mean the same), ",
      "4GB (decimal), or a whole number of bytes"));
}

absl::Status BadCount(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is not a count: write a whole number such as 1000, 5e8 or 100M (decimal)"));
}

}  // namespace

absl::StatusOr<uint64_t> ParseSize(absl::string_view text) {
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  const std::optional<std::string> number = TakeNumber(&rest, /*exponent=*/false);
  if (!number.has_value()) return BadSize(text);
  const std::string unit = absl::AsciiStrToLower(absl::StripLeadingAsciiWhitespace(rest));
  uint64_t scale = 1;
  if (!unit.empty() && unit != "b") {
    const std::optional<int> power = PrefixPower(unit[0]);
    if (!power.has_value()) return BadSize(text);
    const std::string tail = unit.substr(1);
    if (tail.empty() || tail == "ib" || tail == "i") {
      scale = Power(1024, *power);
    } else if (tail == "b") {
      scale = Power(1000, *power);
    } else {
      return BadSize(text);
    }
  }
  const std::optional<uint64_t> bytes = Scaled(*number, scale);
  if (!bytes.has_value()) return BadSize(text);
  return *bytes;
}

absl::StatusOr<uint64_t> ParseCount(absl::string_view text) {
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  const std::optional<std::string> number = TakeNumber(&rest, /*exponent=*/true);
  if (!number.has_value() || rest.size() > 1) return BadCount(text);
  uint64_t scale = 1;
  if (!rest.empty()) {
    const char prefix = absl::ascii_tolower(rest[0]) == 'b' ? 'g' : rest[0];
    const std::optional<int> power = PrefixPower(prefix);
    if (!power.has_value()) return BadCount(text);
    scale = Power(1000, *power);
  }
  const std::optional<uint64_t> count = Scaled(*number, scale);
  if (!count.has_value()) return BadCount(text);
  return *count;
}

}  // namespace spillway
