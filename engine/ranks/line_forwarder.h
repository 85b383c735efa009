// Bytes of a rank's stderr as they come, in lines with the rank's name in front. A pure value;
// one thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

class LineForwarder {
 public:
  // `prefix`: "rank 3: ". A line that starts with it already keeps what it has: ranks put it
  // before what they log themselves (rank_log.h), and not before a library's complaints.
  explicit LineForwarder(std::string prefix) : prefix_(std::move(prefix)) {}

  // The lines that `bytes` completes, each with its end; what is left waits for more. A line
  // that grows past kMostLineBytes is cut there.
  std::string Add(absl::string_view bytes);
  // What is left at the end, as a line; empty where nothing is.
  std::string Finish();

  static constexpr size_t kMostLineBytes = 64 << 10;

 private:
  void Append(absl::string_view line, std::string* out) const;

  const std::string prefix_;
  std::string begun_;  // the line under way
};

}  // namespace spillway
