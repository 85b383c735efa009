// A text as normalizers rewrite it, with the place in the original that each byte comes from.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/tokenizers/rewrite_stage.h"

namespace spillway {

class TracedText {
 public:
  // Rewrites each character by itself, or with `keeps_marks` each together with the combining marks
  // after it. A normalizer with a longer context, such as a Replace of several characters, rewrites
  // the whole text differently; Find does not find the words of that text. Errors as of RewriteAll.
  // REQUIRES: valid UTF-8; it outlives the object.
  static absl::StatusOr<TracedText> Make(const std::vector<Rewrite>& rewrites,
                                         absl::string_view text, bool keeps_marks);

  // Looks for `written` at the current place, or behind the white space that follows it; where it
  // begins with a space, which a tokenizer may have added, without that one, too. False where it is
  // not there. The current place is behind what was found.
  bool Find(absl::string_view written);
  // How many bytes of `written` stand in the text: all of them, or one fewer (see Find).
  size_t found_bytes() const { return end_ - begin_; }

  // The original's bytes, in whole characters, of bytes [first, last) of what was found, without
  // spaces around them. Of nothing but spaces it is empty, and behind them; of no bytes, as a space
  // that a tokenizer has added, it is the next character's.
  std::pair<size_t, size_t> PlaceOf(size_t first, size_t last) const;

 private:
  explicit TracedText(absl::string_view text) : original_(text) {}

  absl::string_view original_;
  std::string rewritten_;
  std::vector<std::pair<size_t, size_t>> places_;  // [byte of rewritten_] its unit in original_
  size_t begin_ = 0, end_ = 0;                     // in rewritten_, of what was found
};

}  // namespace spillway
