// Reads rows with texts from .jsonl, .csv and .tsv.
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

// Whether ReadRows supports a file of this name.
bool IsRowFile(absl::string_view path);

// Calls `take` for each row as an object (with strings for a table) in order; its first error ends
// the reading and gets file and line. Keys that are not kept have null. kInvalidArgument for other
// files, files without rows and, "FILE:LINE: ...", lines that are no objects, such as `example`.
absl::Status ReadRows(
    const std::string& path, const char* example, const KeepKey& keep,
    const std::function<absl::Status(const nlohmann::json& row, int64_t line)>& take);

// The text at a row's `key`. kInvalidArgument for anything but a string, and for blank text: there
// is nothing `to_do` with it, as the message says.
absl::StatusOr<std::string> TextOf(const nlohmann::json& value, const std::string& key,
                                   const char* to_do);

}  // namespace spillway
