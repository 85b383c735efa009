// The words of a chat template: the text that it writes, and what stands in its tags.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// Where in a template, for messages.
struct JinjaPlace {
  absl::string_view file;
  int line = 0;

  // kInvalidArgument, "FILE:LINE: WHY".
  absl::Status Wrong(absl::string_view why) const;
  // kUnimplemented.
  absl::Status Refused(absl::string_view what) const;
};

struct JinjaToken {
  enum class Kind { kText, kOpenOutput, kOpenBlock, kClose, kName, kString, kNumber, kSign, kEnd };
  Kind kind = Kind::kEnd;
  int line = 1;
  std::string text;  // of a string what it says
};

// The last is kEnd. As transformers reads a template: with trim_blocks and lstrip_blocks.
// REQUIRES: `source` is UTF-8. kInvalidArgument and kUnimplemented as JinjaPlace says.
absl::StatusOr<std::vector<JinjaToken>> LexJinja(absl::string_view source, absl::string_view file);

}  // namespace spillway
