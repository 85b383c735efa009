// Rows of data with texts in them: .jsonl, .csv and .tsv.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/jsonl.h"
#include "nlohmann/json.hpp"

namespace spillway {

// Whether a file of this name is read here.
bool IsRowFile(absl::string_view path);

// Calls `take` for each row as an object, of a table with strings, in order; its first error ends
// the reading, and is told with file and line. Of keys that are not kept the value is null.
// kInvalidArgument for other files, those without rows and, "FILE:LINE: ...", lines that are no
// objects, such as `example`.
absl::Status ReadRows(
    const std::string& path, const char* example, const KeepKey& keep,
    const std::function<absl::Status(const nlohmann::json& row, int64_t line)>& take);

// The text that a row has at `key`. kInvalidArgument for what is no string, or has nothing but
// white space: there is nothing `to_do` with it, as the message says.
absl::StatusOr<std::string> TextOf(const nlohmann::json& value, const std::string& key,
                                   const char* to_do);

}  // namespace spillway
