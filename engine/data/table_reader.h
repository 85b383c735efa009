// .csv and .tsv: rows of cells under a row of names.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace spillway {

// The first row names the columns, each once. In a .csv cells are as of RFC 4180: between commas,
// or within quotes, where a doubled quote is one, and commas and ends of lines are text. In a .tsv
// (`tabs`) cells are between tabs, and quotes are text, as in GLUE's files. Empty lines are passed
// over.
//
// Calls take(names, cells, line) for each row, as many cells as names, with the line on which it
// begins; its first error ends the reading. kInvalidArgument, "FILE:LINE: ...", for other numbers
// of cells, a quote that does not end, bytes that are no UTF-8, and a file without a row of names.
// Memory is bounded by a row.
using TakeTableRow = std::function<absl::Status(
    const std::vector<std::string>& names, const std::vector<std::string>& cells, int64_t line)>;
absl::Status ReadTable(const std::string& path, bool tabs, const TakeTableRow& take);

}  // namespace spillway
