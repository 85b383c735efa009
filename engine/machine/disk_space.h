// Checks before a run writes anything that all of it fits; needs on one file system add up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "io/file_system.h"

namespace spillway {

struct SpaceNeed {
  std::string path;  // a directory, existing or not: its nearest existing parent counts
  uint64_t bytes = 0;
  std::string what;  // "swap files (two copies of the state)"
};

// kResourceExhausted names the file system that lacks most, what is needed there and for what, what
// is free, and `remedy`. `returned`: space that the run frees there first. A file system that does
// not report its size passes.
absl::Status CheckSpace(const std::vector<SpaceNeed>& needs, const std::vector<SpaceNeed>& returned,
                        FileSystem& files, absl::string_view remedy);

}  // namespace spillway
