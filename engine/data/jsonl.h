// .jsonl: one JSON object a line, each a text or a prompt with its completion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// A longer line is an error: it is held whole.
inline constexpr size_t kMaxJsonlLineBytes = 64u << 20;

struct JsonlRecord {
  bool has_prompt = false;
  std::string prompt;
  std::string text;  // the completion where there is a prompt
};

// {"text": ...} or {"prompt": ..., "completion": ...}; other keys are passed over.
// kInvalidArgument, "FILE:LINE: ...", for what is no JSON object (lone surrogates and
// doubled keys included), for missing keys and values that are no strings.
absl::StatusOr<JsonlRecord> ParseJsonlRecord(absl::string_view line, absl::string_view file,
                                             int64_t line_number);

// Cuts a file that comes in pieces into records. Lines of nothing but white space are
// passed over. One thread.
class JsonlReader {
 public:
  using Take = std::function<absl::Status(const JsonlRecord&)>;

  // `file` is for messages; the first error of `take` ends the reading.
  JsonlReader(absl::string_view file, Take take) : file_(file), take_(std::move(take)) {}

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
absl::Status ReadJsonl(const std::string& path, const JsonlReader::Take& take,
                       const std::function<absl::Status(uint64_t)>& after_piece = nullptr);

}  // namespace spillway
