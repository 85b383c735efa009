// Converts text with invalid bytes to valid UTF-8.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

inline constexpr absl::string_view kReplacementCharacter = "\xef\xbf\xbd";  // U+FFFD

// Processes a text in pieces. Each maximal ill-formed subsequence (the Unicode Standard, 3.9,
// "U+FFFD Substitution of Maximal Subparts") becomes one U+FFFD, as with Python's errors="replace".
// One thread.
class Utf8Repair {
 public:
  // The whole characters that `piece` completes. The view is of `piece` or of memory of this
  // object, valid until the next call.
  absl::string_view Next(absl::string_view piece);

  // Ends the text and returns the rest. Ready for another text afterwards; the count of
  // replacements continues.
  absl::string_view Finish();

  // Replacements in all texts so far; the offset is that of the first one, in its own text.
  uint64_t replaced() const { return replaced_; }
  uint64_t first_offset_bytes() const { return first_offset_bytes_; }

 private:
  // Appends `text` to out_; an incomplete character at its end goes to held_.
  void Append(absl::string_view text, bool final);

  std::string held_;  // the beginning of a character, at most three bytes
  std::string out_;
  uint64_t taken_bytes_ = 0;  // of this text, up to the start of held_
  uint64_t replaced_ = 0;
  uint64_t first_offset_bytes_ = 0;
};

// How far `text` is valid UTF-8 made of whole characters.
size_t ValidUtf8Prefix(absl::string_view text);

}  // namespace spillway
