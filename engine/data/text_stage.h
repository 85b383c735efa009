// The stages that a text goes through on its way to tokens, each handing on to the next:
// added tokens are cut out, what lies between them is normalised, cut into words, and
// the words become tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace spillway {

// What a stage holds back at most until it knows how the text goes on, in bytes. Words,
// runs of white space before an added token and runs of combining marks that are longer
// than this are cut here, wherever the pieces of the text end.
inline constexpr size_t kMaxHeldBytes = 1 << 20;

// Takes a text as segments in pieces: Text (any number of times), then EndSegment; between
// two segments there may be tokens. One thread.
class TextStage {
 public:
  virtual ~TextStage() = default;

  // REQUIRES: whole characters of valid UTF-8.
  virtual absl::Status Text(absl::string_view piece) = 0;
  virtual absl::Status EndSegment() = 0;

  // REQUIRES: the segment has ended.
  virtual absl::Status Token(uint32_t token) = 0;

  // Forgets a text that was left in the middle.
  virtual void Reset() = 0;
};

}  // namespace spillway
