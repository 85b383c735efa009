#include "engine/data/line_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/text_reader.h"
#include "io/base/status.h"

namespace spillway {

absl::Status LineReader::Line(absl::string_view line) {
  ++lines_;
  if (lines_ == 1) absl::ConsumePrefix(&line, "\xef\xbb\xbf");
  return take_(line, lines_);
}

absl::Status LineReader::Next(absl::string_view piece) {
  while (true) {
    const size_t newline = piece.find('\n');
    const absl::string_view part = piece.substr(0, newline);
    if (part.size() > kMaxLineBytes - held_.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          file_, ":", lines_ + 1, ": a line of more than ", kMaxLineBytes >> 20,
          " MiB: is it .jsonl, one object a line? A longer text has to be cut into several"));
    }
    if (newline == absl::string_view::npos) {
      held_.append(part.data(), part.size());
      return absl::OkStatus();
    }
    if (held_.empty()) {
      RETURN_IF_ERROR(Line(part));
    } else {
      held_.append(part.data(), part.size());
      RETURN_IF_ERROR(Line(held_));
      held_.clear();
    }
    piece.remove_prefix(newline + 1);
  }
}

absl::Status LineReader::Finish() {
  const std::string last = std::exchange(held_, std::string());
  return last.empty() ? absl::OkStatus() : Line(last);
}

absl::Status ReadLines(const std::string& path, const LineReader::Take& take,
                       const std::function<absl::Status(uint64_t)>& after_piece) {
  LineReader reader(path, take);
  RETURN_IF_ERROR(ReadInPieces(path, [&](absl::string_view piece) -> absl::Status {
    RETURN_IF_ERROR(reader.Next(piece));
    return after_piece ? after_piece(piece.size()) : absl::OkStatus();
  }));
  return reader.Finish();
}

}  // namespace spillway
