// Splits a chat template into tokens: literal text, and the contents of tags.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

// A position in a template, for messages.
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
  std::string text;  // the value of a string
};

// The last token is kEnd. Lexes with trim_blocks and lstrip_blocks, like transformers. REQUIRES:
// `source` is UTF-8. kInvalidArgument and kUnimplemented as in JinjaPlace.
absl::StatusOr<std::vector<JinjaToken>> LexJinja(absl::string_view source, absl::string_view file);

}  // namespace spillway
