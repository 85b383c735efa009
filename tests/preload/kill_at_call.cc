// Preloaded into the program (LD_PRELOAD): kills it at its Nth call that makes, renames,
// removes or makes durable a file, just before the call. SPILLWAY_KILL_AT is N; with 0 it
// only counts, and writes how many there were to the file SPILLWAY_KILL_COUNT when the
// program ends.
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace {

std::atomic<long> calls{0};

void Count() {
  static const char* const text = getenv("SPILLWAY_KILL_AT");
  const long number = ++calls;
  if (text != nullptr && number == atol(text)) kill(getpid(), SIGKILL);
}

struct Report {
  ~Report() {
    const char* path = getenv("SPILLWAY_KILL_COUNT");
    if (path == nullptr) return;
    if (FILE* file = fopen(path, "w")) {
      fprintf(file, "%ld\n", calls.load());
      fclose(file);
    }
  }
} report;

template <typename F>
F Next(F, const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define SPILLWAY_COUNTED(type, name, parameters, ...) \
  extern "C" type name parameters {                   \
    static const auto next = Next(&name, #name);      \
    Count();                                          \
    return next(__VA_ARGS__);                         \
  }

SPILLWAY_COUNTED(int, fsync, (int fd), fd)
SPILLWAY_COUNTED(int, fdatasync, (int fd), fd)
SPILLWAY_COUNTED(int, ftruncate, (int fd, off_t size), fd, size)
SPILLWAY_COUNTED(int, fallocate, (int fd, int mode, off_t offset, off_t size), fd, mode, offset,
                 size)
SPILLWAY_COUNTED(int, rename, (const char* from, const char* to) noexcept, from, to)
SPILLWAY_COUNTED(int, unlink, (const char* path) noexcept, path)
SPILLWAY_COUNTED(int, unlinkat, (int fd, const char* path, int flags) noexcept, fd, path, flags)
SPILLWAY_COUNTED(int, remove, (const char* path) noexcept, path)
SPILLWAY_COUNTED(int, rmdir, (const char* path) noexcept, path)
SPILLWAY_COUNTED(int, mkdir, (const char* path, mode_t mode) noexcept, path, mode)
