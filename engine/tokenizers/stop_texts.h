// Texts that end generation: --stop.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

// Finds the first of some texts in a text that arrives in pieces. One thread; the arguments outlive
// it.
class StopTexts {
 public:
  explicit StopTexts(const std::vector<std::string>* texts) : texts_(*texts) {}

  // New text that certainly precedes any stop text. Empty after one was found.
  std::string Next(absl::string_view piece);
  // The text has ended without a stop text: returns the rest.
  std::string Finish();

  bool found() const { return found_; }
  // All text returned so far.
  absl::string_view text() const { return absl::string_view(text_).substr(0, given_); }

 private:
  std::string Give(size_t end);

  const std::vector<std::string>& texts_;
  std::string text_;
  size_t given_ = 0;
  bool found_ = false;
};

}  // namespace spillway
