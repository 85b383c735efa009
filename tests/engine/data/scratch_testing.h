// Changes bytes of this process's nameless files, for tests of what is verified.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace spillway {

// Calls change(fd, size in bytes) for each of this process's files below `directory` that have no
// name. Returns how many there are.
inline int ForEachNamelessFile(const std::string& directory,
                               const std::function<void(int fd, int64_t size_bytes)>& change) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (error || !absl::StartsWith(target, directory) || !absl::EndsWith(target, " (deleted)")) {
      continue;
    }
    const int fd = ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    struct stat info;
    EXPECT_GE(fd, 0) << target;
    EXPECT_EQ(::fstat(fd, &info), 0);
    change(fd, info.st_size);
    ::close(fd);
    ++found;
  }
  return found;
}

// The byte at `offset` of each of them that is long enough is another one. Returns how many were.
inline int FlipByte(const std::string& directory, int64_t offset) {
  int flipped = 0;
  ForEachNamelessFile(directory, [&](int fd, int64_t size_bytes) {
    unsigned char byte = 0;
    if (size_bytes <= offset) return;
    EXPECT_EQ(::pread(fd, &byte, 1, offset), 1);
    byte ^= 0x10;
    EXPECT_EQ(::pwrite(fd, &byte, 1, offset), 1);
    ++flipped;
  });
  return flipped;
}

}  // namespace spillway
