// The JSON extensions of DeepSpeed's reader (hjson) that occur in practice, converted to strict
// JSON line by line, so that messages keep their line numbers.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

// - comments: # and // to the end of the line, /* */;
// - a comma after the last member of an object or array;
// - no comma where the next member stands on a new line;
// - keys without quotes, strings in single quotes;
// - Python's True, False and None (hjson makes strings of them, which DeepSpeed's typed
//   blocks take for what is meant).
// Other extensions of hjson (strings without quotes, ''' strings, no outer braces) are left
// unchanged, and the strict parser refuses them. Never fails; strict JSON keeps its meaning.
std::string StrictJsonFromRelaxed(absl::string_view text);

}  // namespace spillway
