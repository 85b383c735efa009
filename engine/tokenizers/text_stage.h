// The stages of encoding, each passing its output to the next: added tokens are split out, the text
// between them is normalised and split into words, and words become tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "io/base/status.h"

namespace spillway {

// The most bytes that a stage holds until it knows the following text. Longer words, runs of white
// space before an added token and runs of combining marks are cut here, independent of pieces.
inline constexpr size_t kMaxHeldBytes = 1 << 20;

// The most normalizers, or parts of a pre-tokenizer, in a tokenizer.json: each holds up to
// kMaxHeldBytes and calls the next. Real files have up to a dozen.
inline constexpr size_t kMostTextStages = 64;

// The part of `text` that a stage looks at: at most `most` bytes, whole characters.
inline absl::string_view HeldWindow(absl::string_view text, size_t most = kMaxHeldBytes) {
  if (text.size() <= most) return text;
  size_t end = most;
  while ((text[end] & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

// Takes a text as segments in pieces: Text (any number of times), then EndSegment. Tokens may come
// between segments, which may be empty. One thread.
class TextStage {
 public:
  virtual ~TextStage() = default;

  // REQUIRES: whole characters of valid UTF-8.
  virtual absl::Status Text(absl::string_view piece) = 0;
  virtual absl::Status EndSegment() = 0;

  // Passes a whole segment. REQUIRES: none has begun.
  virtual absl::Status Segment(absl::string_view text) {
    RETURN_IF_ERROR(Text(text));
    return EndSegment();
  }

  // REQUIRES: the segment has ended.
  virtual absl::Status Token(uint32_t token) = 0;

  // The next text continues another one: nothing is inserted before its first segment. REQUIRES:
  // nothing of it has arrived.
  virtual void Continue() = 0;

  // Drops an unfinished text; a new one begins.
  virtual void Reset() = 0;
};

// Makes a stage that passes its output to `next`. `given_bytes` counts the bytes of the text that
// entered the first stage; it bounds the text that stages make of it. Both outlive the stage. Any
// thread.
using StageMaker =
    std::function<std::unique_ptr<TextStage>(TextStage* next, const uint64_t* given_bytes)>;

}  // namespace spillway
