// Preloaded into the program (LD_PRELOAD): kills it at its Nth call that makes, renames, links,
// removes or makes durable a file or a directory, just before the call. SPILLWAY_KILL_AT is N; with
// 0 it only counts, and writes how many there were to the file SPILLWAY_KILL_COUNT when the program
// ends (with several ranks each to SPILLWAY_KILL_COUNT-RANK). Where SPILLWAY_KILL_RANK is set, only
// the rank of that number is killed.
//
// SPILLWAY_KILL_MARKS=FILE:FILE... divides a run into stages: stage 0 before the first file exists,
// stage 1 from then on until the second one does, and so on. Calls are counted in each stage from
// 1, the file has a count for each, and SPILLWAY_KILL_STAGE says in which one the program is
// killed.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

namespace {

constexpr int kMostMarks = 15;

struct Marks {
  Marks() {
    const char* given = getenv("SPILLWAY_KILL_MARKS");
    if (given == nullptr) return;
    snprintf(text, sizeof(text), "%s", given);
    for (char* part = strtok(text, ":"); part != nullptr && count < kMostMarks;
         part = strtok(nullptr, ":")) {
      files[count++] = part;
    }
  }
  char text[16384];
  const char* files[kMostMarks];
  int count = 0;
};

const Marks& TheMarks() {
  static const Marks marks;
  return marks;
}

std::atomic<long> calls[kMostMarks + 1];  // of each stage
std::atomic<int> stage{0};

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
  static const char* const kill_stage = getenv("SPILLWAY_KILL_STAGE");
  int now = stage;
  while (now < TheMarks().count && access(TheMarks().files[now], F_OK) == 0) stage = ++now;
  const bool here = kill_stage == nullptr || atoi(kill_stage) == now;
  if (++calls[now] == kill_at && here) kill(getpid(), SIGKILL);
}

void Report() {
  const char* path = getenv("SPILLWAY_KILL_COUNT");
  if (path == nullptr) return;
  const char* rank = getenv("RANK");
  char name[4096];
  snprintf(name, sizeof(name), "%s%s%s", path, rank ? "-" : "", rank ? rank : "");
  if (FILE* file = fopen(name, "w")) {
    for (int i = 0; i <= TheMarks().count; ++i) fprintf(file, "%ld\n", calls[i].load());
    fclose(file);
  }
}

// A program may end by either way.
struct AtExit {
  ~AtExit() { Report(); }
} at_exit;

template <typename F>
F Next(F, const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" void _exit(int code) {
  Report();
  Next(&_exit, "_exit")(code);
  __builtin_unreachable();
}

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
SPILLWAY_COUNTED(int, renameat, (int from_fd, const char* from, int to_fd, const char* to) noexcept,
                 from_fd, from, to_fd, to)
SPILLWAY_COUNTED(int, renameat2,
                 (int from_fd, const char* from, int to_fd, const char* to,
                  unsigned flags) noexcept,
                 from_fd, from, to_fd, to, flags)
SPILLWAY_COUNTED(int, link, (const char* from, const char* to) noexcept, from, to)
SPILLWAY_COUNTED(int, linkat,
                 (int from_fd, const char* from, int to_fd, const char* to, int flags) noexcept,
                 from_fd, from, to_fd, to, flags)
SPILLWAY_COUNTED(int, symlink, (const char* target, const char* path) noexcept, target, path)
SPILLWAY_COUNTED(int, unlink, (const char* path) noexcept, path)
SPILLWAY_COUNTED(int, unlinkat, (int fd, const char* path, int flags) noexcept, fd, path, flags)
SPILLWAY_COUNTED(int, remove, (const char* path) noexcept, path)
SPILLWAY_COUNTED(int, rmdir, (const char* path) noexcept, path)
SPILLWAY_COUNTED(int, mkdir, (const char* path, mode_t mode) noexcept, path, mode)
SPILLWAY_COUNTED(int, mkdirat, (int fd, const char* path, mode_t mode) noexcept, fd, path, mode)

// Those that may make a file: counted where they are asked to.
#define SPILLWAY_COUNTED_OPEN(name, parameters, ...)                      \
  extern "C" int name parameters {                                        \
    static const auto next = Next(&name, #name);                          \
    if ((flags & (O_CREAT | __O_TMPFILE)) == 0) return next(__VA_ARGS__); \
    va_list more;                                                         \
    va_start(more, flags);                                                \
    const mode_t mode = va_arg(more, mode_t);                             \
    va_end(more);                                                         \
    Count();                                                              \
    return next(__VA_ARGS__, mode);                                       \
  }

SPILLWAY_COUNTED_OPEN(open, (const char* path, int flags, ...), path, flags)
SPILLWAY_COUNTED_OPEN(open64, (const char* path, int flags, ...), path, flags)
SPILLWAY_COUNTED_OPEN(openat, (int fd, const char* path, int flags, ...), fd, path, flags)
SPILLWAY_COUNTED_OPEN(openat64, (int fd, const char* path, int flags, ...), fd, path, flags)

// By which streams make theirs.
#define SPILLWAY_COUNTED_FOPEN(name)                          \
  extern "C" FILE* name(const char* path, const char* mode) { \
    static const auto next = Next(&name, #name);              \
    if (mode[0] != 'r') Count();                              \
    return next(path, mode);                                  \
  }

SPILLWAY_COUNTED_FOPEN(fopen)
SPILLWAY_COUNTED_FOPEN(fopen64)
