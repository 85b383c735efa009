// Checked UTF-8: no overlong forms, no surrogates, nothing beyond U+10FFFF.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

// Decodes a text given in pieces of any length. One thread.
class Utf8Decoder {
 public:
  enum class Result { kMore, kCodePoint, kInvalid };

  // Takes the next byte. After kCodePoint, code_point() is the one it completed; after
  // kInvalid the decoder is unusable and offset() is where the bad sequence starts.
  Result Next(unsigned char byte);
  uint32_t code_point() const { return code_point_; }
  // Offset of the first byte of the current (or last completed) sequence, from the start.
  uint64_t offset() const { return offset_; }
  // False when the text ended within a sequence.
  bool complete() const { return missing_ == 0; }

 private:
  uint32_t code_point_ = 0;
  uint32_t minimum_ = 0;
  int missing_ = 0;
  uint64_t offset_ = 0;
  uint64_t bytes_ = 0;
};

// The code point at `*at`, which is advanced behind it. REQUIRES: valid UTF-8, *at < text.size().
inline uint32_t TakeCodePoint(absl::string_view text, size_t* at) {
  const auto byte = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const uint32_t first = byte((*at)++);
  if (first < 0x80) return first;
  const int tail = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  uint32_t code_point = first & (0x3f >> tail);
  for (int i = 0; i < tail; ++i) code_point = (code_point << 6) | (byte((*at)++) & 0x3f);
  return code_point;
}

// REQUIRES: a valid code point.
void AppendUtf8(uint32_t code_point, std::string* out);

// A code point for messages: "'a'", "U+00E9 'é'", "U+0007".
std::string DescribeCodePoint(uint32_t code_point);

// A text from another process as one line of a log: line breaks and tabs become spaces; control
// characters (C0 and C1), characters that change the direction of writing, and invalid bytes become
// '?'.
std::string AsCleanLine(absl::string_view text);

}  // namespace spillway
