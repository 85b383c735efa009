// Reads the small files of a model's directory: config.json, tokenizers, chat templates and
// whatever else lies beside weights.
//
// Such directories are untrusted. A link in one may lead only to another file in it, or, in the
// cache of Hugging Face's hub, to that cache's blobs. Only plain files of bounded size are read, so
// that no pipe or device makes a program wait.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/strict_json.h"
#include "io/file_system.h"

namespace spillway {

// OK for a plain file in the directory, links followed. kNotFound if nothing exists;
// kInvalidArgument for anything but a plain file, and for a link that leads out of the directory.
absl::Status CheckModelFile(absl::string_view directory, absl::string_view name,
                            FileSystem& files = FileSystem::Real());

// The content of a file that passes CheckModelFile. kInvalidArgument also for more than
// `limit_bytes`, and for a git-lfs pointer in the file's place, with the remedy.
absl::StatusOr<std::string> ReadModelFile(absl::string_view directory, absl::string_view name,
                                          uint64_t limit_bytes = kSmallFileBytes,
                                          FileSystem& files = FileSystem::Real());

// Reads a JSON file in the same way; errors in the JSON as in ParseStrictJson.
absl::StatusOr<JsonDocument> ReadModelJson(absl::string_view directory, absl::string_view name,
                                           const JsonLimits& limits = {});

}  // namespace spillway
