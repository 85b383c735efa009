// What the tests of io/ share: aligned memory, and code
// that runs in a child process with other privileges.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "io/base/check.h"
#include "tests/scratch_directory.h"

namespace spillway {

// The user that every system has, without rights.
inline constexpr uid_t kNobody = 65534;

// Memory that direct I/O takes, filled with 0xee.
class AlignedMemory {
 public:
  explicit AlignedMemory(size_t size_bytes)
      : data_(static_cast<char*>(std::aligned_alloc(4096, (size_bytes + 4095) / 4096 * 4096)),
              &std::free),
        size_bytes_(size_bytes) {
    std::fill_n(data_.get(), size_bytes, '\xee');
  }
  char* data() { return data_.get(); }
  size_t size() const { return size_bytes_; }

 private:
  std::unique_ptr<char, void (*)(void*)> data_;
  size_t size_bytes_;
};

inline void FillRandom(char* data, size_t size_bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < size_bytes; ++i) data[i] = static_cast<char>(random());
}

// Runs `body` in a child process; the empty string when it returned one, else
// what it returned or how it died.
inline std::string InChild(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) return "pipe failed";
  const pid_t child = ::fork();
  if (child < 0) return "fork failed";
  if (child == 0) {
    ::close(ends[0]);
    const std::string failure = body();
    (void)!::write(ends[1], failure.data(), failure.size());
    ::_exit(failure.empty() ? 0 : 1);
  }
  ::close(ends[1]);
  std::string failure;
  char buffer[4096];
  ssize_t got;
  while ((got = ::read(ends[0], buffer, sizeof(buffer))) > 0) failure.append(buffer, got);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0 && failure.empty())
    failure = "the child died, wait status " + std::to_string(status);
  return failure;
}

}  // namespace spillway
