#include "engine/tokenizers/stop_texts.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace spillway {

std::string StopTexts::Give(size_t end) {
  std::string out = text_.substr(given_, end - given_);
  given_ = end;
  return out;
}

std::string StopTexts::Next(absl::string_view piece) {
  if (found_) return "";
  text_.append(piece.data(), piece.size());
  // None starts in the returned part.
  const absl::string_view rest = absl::string_view(text_).substr(given_);
  // The first complete one ends the text, independent of pieces; of several, the longest.
  size_t first = absl::string_view::npos, first_end = first, held = 0;
  for (const std::string& stop : texts_) {
    const size_t at = rest.find(stop);
    const size_t end = at == absl::string_view::npos ? at : at + stop.size();
    if (end < first_end || (end == first_end && at < first)) {
      first = at;
      first_end = end;
    }
    for (size_t bytes = std::min(stop.size() - 1, rest.size()); bytes > held; --bytes) {
      if (absl::EndsWith(rest, stop.substr(0, bytes))) held = bytes;
    }
  }
  found_ = first != absl::string_view::npos;
  return Give(given_ + (found_ ? first : rest.size() - held));
}

std::string StopTexts::Finish() { return found_ ? "" : Give(text_.size()); }

}  // namespace spillway
