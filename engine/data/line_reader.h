// Splits a file that arrives in pieces into lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// A longer line is an error: it is in memory as a whole, with up to twice as much while it is
// parsed, and the smallest budgets leave some 200 MiB besides LibTorch.
inline constexpr size_t kMaxLineBytes = 32u << 20;

// One thread.
class LineReader {
 public:
  // A line without its newline, and its number from 1. A byte order mark before the first line is
  // dropped.
  using Take = std::function<absl::Status(absl::string_view line, int64_t number)>;

  // `file` is for messages; the first error of `take` ends the reading.
  LineReader(absl::string_view file, Take take) : file_(file), take_(std::move(take)) {}

  absl::Status Next(absl::string_view piece);
  // The last line needs no newline.
  absl::Status Finish();

 private:
  absl::Status Line(absl::string_view line);

  const std::string file_;
  const Take take_;
  std::string held_;  // an incomplete line
  int64_t lines_ = 0;
};

// Reads a whole file. `after_piece` is called with the number of bytes read, and may be null.
absl::Status ReadLines(const std::string& path, const LineReader::Take& take,
                       const std::function<absl::Status(uint64_t)>& after_piece = nullptr);

}  // namespace spillway
