// Whether all that a run will write fits, asked before it writes anything: several things on
// one file system add up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "io/file_system.h"

namespace spillway {

struct SpaceNeed {
  std::string path;  // a directory, or one that is going to be: its nearest parent counts
  uint64_t bytes = 0;
  std::string what;  // "swap files (two copies of the state)"
};

// kResourceExhausted names the file system that lacks most, what is needed there and for what,
// what is free, and `remedy`. `returned` is what the run removes there before it writes. A
// file system that does not tell its size passes.
absl::Status CheckSpace(const std::vector<SpaceNeed>& needs, const std::vector<SpaceNeed>& returned,
                        FileSystem& files, absl::string_view remedy);

}  // namespace spillway
