// Renders what jinja_syntax.h reads.
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
  // Bytes [first, second) that stand in {% generation %}.
  std::vector<std::pair<size_t, size_t>> generated;
};

// What strftime_now writes; none: the template has no such function.
using ChatClock = std::optional<absl::CivilSecond>;

// `variables` is a dictionary. kInvalidArgument, "FILE:LINE: ...", for what the template raises,
// what Python would, and a template that goes on and on; kUnimplemented names what is not
// supported; kCancelled at a StopSignal, which is looked at many times a second. Pure: any thread.
absl::StatusOr<JinjaText> RenderJinja(const JinjaTemplate& parsed, const JinjaValue& variables,
                                      ChatClock now, absl::string_view file);

}  // namespace spillway
