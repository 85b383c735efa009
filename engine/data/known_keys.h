// Layouts of instruction data that other programs read, by the keys of their objects. Pure.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace spillway {

// What the keys of a row of `path` look like, and the command that makes a .jsonl of it that
// language models read: "looks like alpaca: `jq -c ...`". "" where no layout is known that has
// such keys. The values are not looked at.
std::string KnownKeysAdvice(const nlohmann::json& object, absl::string_view path);

// The command that applies `filter` to each line of `path` and writes a file beside it, in
// backquotes.
std::string JqCommand(absl::string_view filter, absl::string_view path);

}  // namespace spillway
