// Regular expressions for names, from users and PEFT's configs. PCRE2 matches them; for names its
// syntax is Python's. A match that takes too long counts as none.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// A value type; any thread.
class NamePattern {
 public:
  // kInvalidArgument, "TEXT: why", for an invalid expression, or one longer than 1,000 bytes.
  static absl::StatusOr<NamePattern> Parse(absl::string_view text);

  // Whether some part of the name matches; whether the whole name does.
  bool FoundIn(absl::string_view name) const { return Match(name, false, nullptr); }
  bool Matches(absl::string_view name) const { return Match(name, true, nullptr); }
  // The first group of a match of the whole name.
  std::optional<std::string> GroupIn(absl::string_view name) const;

 private:
  NamePattern() = default;
  bool Match(absl::string_view name, bool whole, std::optional<std::string>* group) const;

  std::shared_ptr<const void> code_;
};

}  // namespace spillway
