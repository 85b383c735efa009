// Preloaded into the program (LD_PRELOAD): from the Nth on, its calls of one kind on files of
// one name fail. SPILLWAY_FAIL_CALL: pread, pwrite, fdatasync or write; SPILLWAY_FAIL_NAME: a
// part of the file's path; SPILLWAY_FAIL_AFTER: N, from 1; SPILLWAY_FAIL_ERRNO: the number. Or,
// with SPILLWAY_FAIL_SLEEP_US instead of a number, they take so many microseconds longer.
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace {

std::atomic<long> calls{0};

// Whether this call fails; errno is set then.
bool Fails(const char* call, int fd) {
  static const char* const which = getenv("SPILLWAY_FAIL_CALL");
  static const char* const name = getenv("SPILLWAY_FAIL_NAME");
  static const char* const after = getenv("SPILLWAY_FAIL_AFTER");
  static const char* const error = getenv("SPILLWAY_FAIL_ERRNO");
  static const char* const sleep_us = getenv("SPILLWAY_FAIL_SLEEP_US");
  if (which == nullptr || name == nullptr || after == nullptr) return false;
  if (error == nullptr && sleep_us == nullptr) return false;
  if (strcmp(which, call) != 0) return false;
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length <= 0) return false;
  path[length] = 0;
  if (strstr(path, name) == nullptr) return false;
  if (++calls < atol(after)) return false;
  if (sleep_us != nullptr) {
    usleep(atol(sleep_us));
    return false;
  }
  errno = atoi(error);
  return true;
}

template <typename F>
F Next(F, const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define SPILLWAY_FAILING(type, name, parameters, ...) \
  extern "C" type name parameters {                   \
    static const auto next = Next(&name, #name);      \
    if (Fails(#name, fd)) return -1;                  \
    return next(__VA_ARGS__);                         \
  }

SPILLWAY_FAILING(ssize_t, pread, (int fd, void* to, size_t size, off_t at), fd, to, size, at)
SPILLWAY_FAILING(ssize_t, pwrite, (int fd, const void* from, size_t size, off_t at), fd, from, size,
                 at)
SPILLWAY_FAILING(ssize_t, write, (int fd, const void* from, size_t size), fd, from, size)
SPILLWAY_FAILING(int, fdatasync, (int fd), fd)
