#include "engine/config/deepspeed_values.h"

#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace spillway {

using nlohmann::json;

std::optional<int64_t> AsInteger(const json& value, bool strings) {
  if (value.is_number_unsigned()) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    if (value.get<uint64_t>() > kMost) return std::nullopt;
    return value.get<int64_t>();
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  const std::optional<double> number = AsNumber(value, strings);
  // Beyond 2^53 a double no longer says which whole number was meant.
  if (!number || *number != std::floor(*number) || std::abs(*number) > 0x1p53) return std::nullopt;
  return static_cast<int64_t>(*number);
}

std::optional<double> AsNumber(const json& value, bool strings) {
  double number = 0;
  if (value.is_number()) {
    number = value.get<double>();
  } else if (!strings || !value.is_string() ||
             !absl::SimpleAtod(value.get_ref<const std::string&>(), &number)) {
    return std::nullopt;
  }
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<bool> AsBoolean(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) {
    if (value == 1) return true;
    if (value == 0) return false;
    return std::nullopt;
  }
  if (!value.is_string()) return std::nullopt;
  const std::string text = absl::AsciiStrToLower(value.get_ref<const std::string&>());
  for (const char* yes : {"true", "yes", "on", "t", "y", "1"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"false", "no", "off", "f", "n", "0"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

std::string ShownJson(const json& value) {
  constexpr size_t kMost = 60;
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  return text.size() <= kMost ? text : absl::StrCat(text.substr(0, kMost - 3), "...");
}

}  // namespace spillway
