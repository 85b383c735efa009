// The stages that a text goes through on its way to tokens, each handing on to the next:
// added tokens are cut out, what lies between them is normalised, cut into words, and
// the words become tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "io/base/status.h"

namespace spillway {

// What a stage holds back at most until it knows how the text goes on, in bytes. Words,
// runs of white space before an added token and runs of combining marks that are longer
// than this are cut here, wherever the pieces of the text end.
inline constexpr size_t kMaxHeldBytes = 1 << 20;

// Normalizers and parts of a pre-tokenizer that a tokenizer.json may have, of each kind: every one
// holds up to kMaxHeldBytes and calls the next. Real files have up to a dozen.
inline constexpr size_t kMostTextStages = 64;

// How much of `text` a stage looks at: at most `most` bytes, whole characters.
inline absl::string_view HeldWindow(absl::string_view text, size_t most = kMaxHeldBytes) {
  if (text.size() <= most) return text;
  size_t end = most;
  while ((text[end] & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

// Takes a text as segments in pieces: Text (any number of times), then EndSegment; between
// two segments there may be tokens. Segments may be empty. One thread.
class TextStage {
 public:
  virtual ~TextStage() = default;

  // REQUIRES: whole characters of valid UTF-8.
  virtual absl::Status Text(absl::string_view piece) = 0;
  virtual absl::Status EndSegment() = 0;

  // A whole segment. REQUIRES: none has begun.
  virtual absl::Status Segment(absl::string_view text) {
    RETURN_IF_ERROR(Text(text));
    return EndSegment();
  }

  // REQUIRES: the segment has ended.
  virtual absl::Status Token(uint32_t token) = 0;

  // The text that comes now continues another one: nothing is put before its first segment.
  // REQUIRES: nothing of it has come.
  virtual void Continue() = 0;

  // Forgets a text that was left in the middle; another one begins.
  virtual void Reset() = 0;
};

// Makes a stage that hands on to `next`. `given_bytes` counts the bytes of the text that have gone
// into the first stage, by which the text that stages make of it is bounded. Both outlive the
// stage. Any thread.
using StageMaker =
    std::function<std::unique_ptr<TextStage>(TextStage* next, const uint64_t* given_bytes)>;

}  // namespace spillway
