// Renders the templates of jinja_syntax.h.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "engine/chat/jinja_syntax.h"

namespace spillway {

struct JinjaText {
  std::string text;
  // Ranges of bytes [first, second) inside {% generation %}.
  std::vector<std::pair<size_t, size_t>> generated;
};

// The time for strftime_now; none: the template has no such function.
using ChatClock = std::optional<absl::CivilSecond>;

// `variables` is a dictionary. kInvalidArgument, "FILE:LINE: ...", if the template raises or Python
// would; kUnimplemented names an unsupported feature; kInvalidArgument for a template that does
// not end; kCancelled at a StopSignal, checked many times a second. Pure: any thread.
absl::StatusOr<JinjaText> RenderJinja(const JinjaTemplate& parsed, const JinjaValue& variables,
                                      ChatClock now, absl::string_view file);

}  // namespace spillway
