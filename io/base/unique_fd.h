// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace spillway {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Repeats a system call that a signal interrupted.
template <typename Call>
auto RetryOnSignal(Call&& call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

// Writes all bytes; returns 0 or errno.
inline int WriteAll(int fd, const char* data, size_t size_bytes) {
  while (size_bytes > 0) {
    const ssize_t written = RetryOnSignal([&] { return ::write(fd, data, size_bytes); });
    if (written <= 0) return written < 0 ? errno : EIO;
    data += written;
    size_bytes -= static_cast<size_t>(written);
  }
  return 0;
}

}  // namespace spillway
