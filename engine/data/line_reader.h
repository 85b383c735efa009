// Cuts a file that comes in pieces into lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// A longer line is an error: it is held whole, with up to twice as much while it is parsed, and the
// smallest of budgets leaves some 200 MiB beside LibTorch.
inline constexpr size_t kMaxLineBytes = 32u << 20;

// One thread.
class LineReader {
 public:
  // A line without its newline, and its number from 1; the first one without a byte order mark,
  // with which a file that was written on Windows may begin.
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
  std::string held_;  // the beginning of a line
  int64_t lines_ = 0;
};

// A whole file. `after_piece` is told how many bytes have been read, and may be null.
absl::Status ReadLines(const std::string& path, const LineReader::Take& take,
                       const std::function<absl::Status(uint64_t)>& after_piece = nullptr);

}  // namespace spillway
