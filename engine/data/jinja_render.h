// Renders what jinja_syntax.h reads.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/jinja_syntax.h"

namespace spillway {

struct JinjaText {
  std::string text;
  // Bytes [first, second) that stand in {% generation %}.
  std::vector<std::pair<size_t, size_t>> generated;
};

// `variables` is a dictionary. kInvalidArgument, "FILE:LINE: ...", for what the template raises
// and what Python would; kUnimplemented names what is not supported; kResourceExhausted for a
// template that goes on and on. Pure: any thread.
absl::StatusOr<JinjaText> RenderJinja(const std::vector<JinjaNode>& nodes,
                                      const JinjaValue& variables, absl::string_view file);

}  // namespace spillway
