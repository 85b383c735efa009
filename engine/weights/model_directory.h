// Checks the directory that --model names before anything is read from it.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace spillway {

// OK if `directory` is a directory. Otherwise "--model DIRECTORY: ...": kNotFound if nothing is
// there, kInvalidArgument and others for a path that is something else.
absl::Status CheckIsDirectory(const std::string& directory);

// Checks also that it has a config.json; otherwise returns DescribeNoModel.
absl::Status CheckModelDirectory(const std::string& directory);

// Describes a directory without a config.json (an adapter, a run's OUTPUT, a folder of models,
// weights of another format, ...), and what to give instead. kNotFound.
absl::Status DescribeNoModel(const std::string& directory);

}  // namespace spillway
