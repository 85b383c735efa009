// The one way to the small files of a model's directory: config.json, tokenizers, chat templates
// and whatever else lies beside weights.
//
// Such a directory comes from strangers. Nothing outside of it is read: a link in it may lead to
// another file in it, or, in the cache of Hugging Face's hub, to that cache's blobs. What is read
// is a plain file, so that no pipe or device makes a program wait, and has a bound.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/strict_json.h"
#include "io/file_system.h"

namespace spillway {

// OK for what is in the directory, with links followed. kNotFound where there is nothing;
// kInvalidArgument for what is no plain file, and for a link that leads out of the directory.
absl::Status CheckModelFile(absl::string_view directory, absl::string_view name,
                            FileSystem& files = FileSystem::Real());

// The content of a file that CheckModelFile accepts. kInvalidArgument also for more than
// `limit_bytes`, and for git-lfs's pointer in the file's place, with what to do.
absl::StatusOr<std::string> ReadModelFile(absl::string_view directory, absl::string_view name,
                                          uint64_t limit_bytes = kSmallFileBytes,
                                          FileSystem& files = FileSystem::Real());

// The same of JSON; errors of that as ParseStrictJson's.
absl::StatusOr<JsonDocument> ReadModelJson(absl::string_view directory, absl::string_view name,
                                           const JsonLimits& limits = {});

}  // namespace spillway
