// Reads of parts of a file of weights, at any offset.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace spillway {

// Reads exactly the bytes [offset_bytes, offset_bytes + size_bytes) of `fd` into `data`. kDataLoss
// if the file ends before that; `path` names it in messages. Any thread.
absl::Status ReadAt(int fd, const std::string& path, uint64_t offset_bytes, void* data,
                    uint64_t size_bytes);

}  // namespace spillway
