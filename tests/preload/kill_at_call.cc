// Preloaded into the program (LD_PRELOAD): kills it at its Nth call that makes, renames,
// removes or makes durable a file, just before the call. SPILLWAY_KILL_AT is N; with 0 it
// only counts, and writes how many there were to the file SPILLWAY_KILL_COUNT when the
// program ends (with several ranks each to SPILLWAY_KILL_COUNT-RANK). Where SPILLWAY_KILL_RANK is
// set, only the rank of that number is killed.
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

namespace {

std::atomic<long> calls{0};

// Which call is the last one; 0: none.
long KillAt() {
  const char* at = getenv("SPILLWAY_KILL_AT");
  const char* victim = getenv("SPILLWAY_KILL_RANK");
  const char* rank = getenv("RANK");
  if (at == nullptr) return 0;
  if (victim != nullptr && (rank == nullptr || strcmp(victim, rank) != 0)) return 0;
  return atol(at);
}

void Count() {
  static const long kill_at = KillAt();
  if (++calls == kill_at) kill(getpid(), SIGKILL);
}

struct Report {
  ~Report() {
    const char* path = getenv("SPILLWAY_KILL_COUNT");
    if (path == nullptr) return;
    const char* rank = getenv("RANK");
    char name[4096];
    snprintf(name, sizeof(name), "%s%s%s", path, rank ? "-" : "", rank ? rank : "");
    if (FILE* file = fopen(name, "w")) {
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
