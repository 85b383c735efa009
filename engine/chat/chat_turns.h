// Finds the assistant's turns in a conversation's text if its template does not mark them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/chat/jinja_syntax.h"

namespace spillway {

// Renders these messages to text.
using RenderMessages =
    std::function<absl::StatusOr<std::string>(const JinjaValue& messages, bool generation_prompt)>;

// Ranges of bytes [first, second) of the assistant's turns in `text`, which `render` makes of all
// messages; whole characters, in order. A turn starts after the previous turns and the generation
// prompt (or at its content, if previous turns alone are rendered differently). It ends with the
// text that ends it when it is the last message, as far as `text` has that.
//
// The ends of contents are found by marking them, all at once if the marks change nothing else.
// Turns that follow messages of one role are assumed alike if the first and the last of them
// (except the very last) are rendered alike. So there are a dozen renderings, and more only for
// more roles and for turns that differ. kInvalidArgument, naming the template's `file`: it changes
// the marked text, or ends the last turn differently. kCancelled at a StopSignal.
absl::StatusOr<std::vector<std::pair<size_t, size_t>>> FindTurns(const RenderMessages& render,
                                                                 const JinjaValue& messages,
                                                                 absl::string_view text,
                                                                 absl::string_view file);

}  // namespace spillway
