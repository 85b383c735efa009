// Preloaded into the program (LD_PRELOAD): from the Nth on, its calls of one kind on files of
// one name fail. SPILLWAY_FAIL_CALL: pread, pwrite, fdatasync or write; SPILLWAY_FAIL_NAME: a
// part of the file's path; SPILLWAY_FAIL_AFTER: N, from 1; SPILLWAY_FAIL_ERRNO: the number. Or,
// with SPILLWAY_FAIL_SLEEP_US instead of a number, they take so many microseconds longer.
//
// Or, with SPILLWAY_FAIL_FILE instead, the Nth call puts that file in the place of every open one
// whose path has SPILLWAY_FAIL_PLACE in it. So the kernel itself fails what is moved there by a
// ring of io_uring: of /dev/full for want of room, of /proc/self/mem, at addresses where nothing
// is, with EIO.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace {

std::atomic<long> calls{0};

// Whether `name` is in the path of what is open at `fd`.
bool IsOf(int fd, const char* name) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length <= 0) return false;
  path[length] = 0;
  return strstr(path, name) != nullptr;
}

void Replace(const char* place, const char* file) {
  const int other = open(file, O_RDWR | O_CLOEXEC);
  if (other < 0) abort();
  for (int fd = 0; fd < 1024; ++fd) {
    if (fd != other && IsOf(fd, place)) dup2(other, fd);
  }
}

// A ring that knows its files by themselves would go on with those: the kernel refuses to tell it.
__attribute__((constructor)) void RefuseRegisteredFiles() {
  if (getenv("SPILLWAY_FAIL_FILE") == nullptr) return;
  constexpr unsigned kRegisterFiles = 2;  // IORING_REGISTER_FILES
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_register, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRegisterFiles, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    abort();
  }
}

// Whether this call fails; errno is set then.
bool Fails(const char* call, int fd) {
  static const char* const which = getenv("SPILLWAY_FAIL_CALL");
  static const char* const name = getenv("SPILLWAY_FAIL_NAME");
  static const char* const after = getenv("SPILLWAY_FAIL_AFTER");
  static const char* const error = getenv("SPILLWAY_FAIL_ERRNO");
  static const char* const sleep_us = getenv("SPILLWAY_FAIL_SLEEP_US");
  if (which == nullptr || name == nullptr || after == nullptr) return false;
  static const char* const file = getenv("SPILLWAY_FAIL_FILE");
  static const char* const place = getenv("SPILLWAY_FAIL_PLACE");
  const bool replaces = file != nullptr && place != nullptr;
  if (error == nullptr && sleep_us == nullptr && !replaces) return false;
  if (strcmp(which, call) != 0 || !IsOf(fd, name)) return false;
  const long nth = ++calls;
  if (nth < atol(after)) return false;
  if (replaces) {
    if (nth == atol(after)) Replace(place, file);
    return false;
  }
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
