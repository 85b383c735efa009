// The directory that --model names, checked before anything is read from it.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace spillway {

// OK where `directory` is one. Otherwise "--model DIRECTORY: ...": kNotFound where there is
// nothing, kInvalidArgument and the like for a path that is none.
absl::Status CheckIsDirectory(const std::string& directory);

// The same, and that it has a config.json; otherwise DescribeNoModel.
absl::Status CheckModelDirectory(const std::string& directory);

// What a directory without a config.json is (an adapter, a run's OUTPUT, a folder of models,
// weights of another format, ...), and what to give in its place. kNotFound.
absl::Status DescribeNoModel(const std::string& directory);

}  // namespace spillway
