// Regular expressions for names, as people and PEFT's configs give them: PCRE2's, which are
// Python's for all that names need. What takes too long to be told is not found.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// A value; any thread.
class NamePattern {
 public:
  // kInvalidArgument, "TEXT: why", for what is no regular expression, or is longer than 1,000
  // bytes.
  static absl::StatusOr<NamePattern> Parse(absl::string_view text);

  // Whether some part of the name matches; the whole of it.
  bool FoundIn(absl::string_view name) const { return Match(name, false, nullptr); }
  bool Matches(absl::string_view name) const { return Match(name, true, nullptr); }
  // What its first group holds of a name that it matches as a whole.
  std::optional<std::string> GroupIn(absl::string_view name) const;

 private:
  NamePattern() = default;
  bool Match(absl::string_view name, bool whole, std::optional<std::string>* group) const;

  std::shared_ptr<const void> code_;
};

}  // namespace spillway
