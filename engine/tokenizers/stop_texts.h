// Texts that end what a model writes: --stop.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

// Finds the first of some texts in one that comes in pieces. One thread; what it is made of
// outlives it.
class StopTexts {
 public:
  explicit StopTexts(const std::vector<std::string>* texts) : texts_(*texts) {}

  // What of the text so far is known to stand before any of them and has not been given yet.
  // Nothing more once one was found.
  std::string Next(absl::string_view piece);
  // The text has ended without one of them: what was held back.
  std::string Finish();

  bool found() const { return found_; }
  // All that was given.
  absl::string_view text() const { return absl::string_view(text_).substr(0, given_); }

 private:
  std::string Give(size_t end);

  const std::vector<std::string>& texts_;
  std::string text_;
  size_t given_ = 0;
  bool found_ = false;
};

}  // namespace spillway
