#include "io/base/format_bytes.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace spillway {

std::string FormatBytes(uint64_t size_bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  const bool whole_kib = size_bytes > 0 && size_bytes % 1024 == 0;
  if (size_bytes < 10000 && !whole_kib) return absl::StrCat(size_bytes, " B");
  double value = static_cast<double>(size_bytes);
  size_t unit = 0;
  // 1023.995 would be printed as 1024.00: that belongs to the next unit.
  while (value >= 1023.995 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  std::string digits = absl::StrFormat("%.2f", value);
  while (digits.back() == '0') digits.pop_back();
  if (digits.back() == '.') digits.pop_back();
  return absl::StrCat(digits, " ", kUnits[unit]);
}

std::string FormatBytesForFlag(uint64_t size_bytes) {
  return absl::StrCat(size_bytes / kMiB + (size_bytes % kMiB != 0), "MiB");
}

}  // namespace spillway
