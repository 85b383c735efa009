// Sizes and counts as people write them on a command line.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// Bytes. "512MiB", "4GiB", "4G" and "1M" are binary (as in fio), "4GB" is decimal, a plain number
// is bytes. K, M, G, T in either case; fractions ("1.5GiB") if the result is a whole number.
// kInvalidArgument names the accepted forms.
absl::StatusOr<uint64_t> ParseSize(absl::string_view text);

// A count: "1000", "100M" and "2.5k" (decimal: k, M, B or G, T), "5e8".
absl::StatusOr<uint64_t> ParseCount(absl::string_view text);

}  // namespace spillway
