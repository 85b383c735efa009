// Recognises other programs' layouts of instruction data by their keys. Pure.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace spillway {

// Recognises the layout of a row of `path` by its keys and returns the command that converts the
// file to .jsonl for language models: "looks like alpaca: `jq -c ...`". "" if no known layout has
// these keys. Values are ignored.
std::string KnownKeysAdvice(const nlohmann::json& object, absl::string_view path);

// The command that applies `filter` to each line of `path` and writes a file beside it, in
// backquotes.
std::string JqCommand(absl::string_view filter, absl::string_view path);

}  // namespace spillway
