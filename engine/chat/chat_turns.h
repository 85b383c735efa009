// Which bytes of a conversation's text are the assistant's, where its template does not say it.
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

// The text of these messages.
using RenderMessages =
    std::function<absl::StatusOr<std::string>(const JinjaValue& messages, bool generation_prompt)>;

// Bytes [first, second) of each of the assistant's turns in `text`, which `render` writes of all
// messages; whole characters, in order. A turn goes from where the turns before it end, with the
// generation prompt (or from its content, where they are written in another way when they are
// alone), to what ends it when it is the last, as far as that stands in the text.
//
// Where contents end is found by marking them, all at once where that changes nothing else. Turns
// behind messages of one role are taken as alike where the first and the last of them, but for the
// very last, are written alike: so there are a dozen renderings, and more only for more roles and
// for turns that are not alike.
// kInvalidArgument, which names `file` as the template's: it changes what is marked, or ends a turn
// in another way when it is the last. kCancelled at a StopSignal.
absl::StatusOr<std::vector<std::pair<size_t, size_t>>> FindTurns(const RenderMessages& render,
                                                                 const JinjaValue& messages,
                                                                 absl::string_view text,
                                                                 absl::string_view file);

}  // namespace spillway
