#include "io/uring_refusal.h"

#include <sys/resource.h>

#include <cerrno>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "io/base/status.h"
#include "io/file.h"

namespace spillway {
namespace {

constexpr char kOtherwise[] = ", or choose the thread-pool engine (`--io-engine threads`)";

int ReadIoUringDisabled() {
  const absl::StatusOr<std::string> text = ReadSmallFile("/proc/sys/kernel/io_uring_disabled");
  int value = -1;
  if (!text.ok() || !absl::SimpleAtoi(*text, &value)) return -1;
  return value;
}

std::string CauseAndRemedy(int error, int io_uring_disabled, uint64_t memlock_bytes) {
  switch (error) {
    case EPERM:
    case EACCES:
      if (io_uring_disabled == 2) {
        return absl::StrCat(
            "kernel.io_uring_disabled is 2, which turns io_uring off for everybody: "
            "`sysctl kernel.io_uring_disabled=0`",
            kOtherwise);
      }
      if (io_uring_disabled == 1) {
        return absl::StrCat(
            "kernel.io_uring_disabled is 1, which keeps it for kernel.io_uring_group: join that "
            "group, `sysctl kernel.io_uring_disabled=0`",
            kOtherwise);
      }
      return absl::StrCat(
          "most likely the seccomp profile of this container forbids io_uring: allow "
          "io_uring_setup, io_uring_enter and io_uring_register there",
          kOtherwise);
    case ENOSYS:
      return absl::StrCat(
          "the kernel is older than 5.6 or built without io_uring, or a sandbox (gVisor, a "
          "seccomp profile) hides it: use a newer kernel, allow it in the sandbox",
          kOtherwise);
    case ENOMEM:
      return absl::StrCat(
          "the ring's memory counts against the limit of locked memory, now ",
          memlock_bytes == RLIM_INFINITY ? "unlimited" : absl::StrCat(memlock_bytes, " bytes"),
          ", or the cgroup is out of memory: raise `ulimit -l` (LimitMEMLOCK of a systemd unit, "
          "`docker run --ulimit memlock=-1`)",
          kOtherwise);
    case EMFILE:
    case ENFILE:
      return absl::StrCat("too many open files: raise `ulimit -n`", kOtherwise);
    default:
      return absl::StrCat("this kernel does not offer what is needed: use Linux 5.6 or newer",
                          kOtherwise);
  }
}

uint64_t MemlockBytes() {
  rlimit memlock = {};
  ::getrlimit(RLIMIT_MEMLOCK, &memlock);
  return memlock.rlim_cur;
}

}  // namespace

absl::Status UringRefused(int error, int io_uring_disabled, uint64_t memlock_bytes) {
  const absl::Status plain = ErrnoStatus(error, "set up io_uring");
  // Replaces the general remedy after the semicolon by the particular one.
  const absl::string_view message = plain.message().substr(0, plain.message().find(';'));
  return absl::Status(
      plain.code(),
      absl::StrCat(message, "; ", CauseAndRemedy(error, io_uring_disabled, memlock_bytes)));
}

absl::Status UringRefusedHere(int error) {
  return UringRefused(error, ReadIoUringDisabled(), MemlockBytes());
}

std::string UringFeatureRefused(int error, uint64_t size_bytes, uint64_t memlock_bytes) {
  switch (error) {
    case ENOMEM:
      return absl::StrCat(
          "ENOMEM, ", size_bytes >> 10, " KiB count against the limit of locked memory, now ",
          memlock_bytes == RLIM_INFINITY ? "unlimited" : absl::StrCat(memlock_bytes >> 10, " KiB"),
          ": raise it with `ulimit -l unlimited`, LimitMEMLOCK=infinity in a systemd unit or "
          "`docker run --ulimit memlock=-1`");
    case EPERM:
    case EACCES:
      return absl::StrCat(error == EPERM ? "EPERM" : "EACCES",
                          ", most likely a seccomp profile or missing rights: allow "
                          "io_uring_register and io_uring_setup there");
    case EOPNOTSUPP:
      return "EOPNOTSUPP, the drive or its driver cannot do this: for polling load the driver "
             "with poll queues (nvme.poll_queues=4) and use direct I/O";
    case EMFILE:
      return "EMFILE, too many files: raise `ulimit -n`";
    default: {
      const absl::Status plain = ErrnoStatus(error, "the kernel says");
      return absl::StrCat(plain.message());
    }
  }
}

std::string UringFeatureRefusedHere(int error, uint64_t size_bytes) {
  return UringFeatureRefused(error, size_bytes, MemlockBytes());
}

}  // namespace spillway
