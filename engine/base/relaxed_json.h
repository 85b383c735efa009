// The JSON that DeepSpeed's reader (hjson) takes beyond the standard, as far as files in
// the wild use it: turned into strict JSON, line by line, so that messages keep their
// lines.
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
// What hjson takes besides (strings without quotes, ''' strings, no outer braces) is left
// as it is, for the strict parser to refuse. Never fails; text that was strict JSON keeps
// its meaning.
std::string StrictJsonFromRelaxed(absl::string_view text);

}  // namespace spillway
