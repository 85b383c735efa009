// Splits a rank's stderr into lines and puts the rank's name in front of each. A pure value; one
// thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

class LineForwarder {
 public:
  // `prefix`: "rank 3: ". A line that already starts with it is unchanged: ranks prefix what they
  // log themselves (rank_log.h), but not the messages of libraries.
  explicit LineForwarder(std::string prefix) : prefix_(std::move(prefix)) {}

  // Returns the lines that `bytes` completes, with their ends, and stores the rest. A line longer
  // than kMostLineBytes is cut there.
  std::string Add(absl::string_view bytes);
  // Returns the rest as a line; empty if there is none.
  std::string Finish();

  static constexpr size_t kMostLineBytes = 64 << 10;

 private:
  void Append(absl::string_view line, std::string* out) const;

  const std::string prefix_;
  std::string begun_;  // the incomplete line
};

}  // namespace spillway
