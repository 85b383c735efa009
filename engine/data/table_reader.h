// Reads .csv and .tsv: a row of names, then rows of cells.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace spillway {

// The first row has distinct names of columns. Cells of a .csv follow RFC 4180: they are separated
// by commas or quoted; in quotes a doubled quote is one, and commas and line ends are text. Cells
// of a .tsv (`tabs`) are separated by tabs, and quotes are text, as in GLUE's files. Empty lines
// are ignored.
//
// Calls take(names, cells, line) for each row, with as many cells as names and the row's first
// line; its first error ends the reading. kInvalidArgument, "FILE:LINE: ...", for another number of
// cells, an unclosed quote, invalid UTF-8, and a file without a row of names. Memory is bounded by
// a row.
using TakeTableRow = std::function<absl::Status(
    const std::vector<std::string>& names, const std::vector<std::string>& cells, int64_t line)>;
absl::Status ReadTable(const std::string& path, bool tabs, const TakeTableRow& take);

}  // namespace spillway
