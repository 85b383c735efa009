#include "io/file_lock.h"

#include <fcntl.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"

namespace spillway {

absl::StatusOr<bool> TryLockFile(int fd, LockKind kind, absl::string_view path,
                                 int (*flock)(int, int)) {
  const bool shared = kind == LockKind::kShared;
  if (RetryOnSignal([&] { return flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB); }) == 0) {
    return true;
  }
  if (errno == EWOULDBLOCK) return false;
  const bool has_none =
      errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL;
  if (!has_none) return ErrnoStatus(errno, absl::StrCat("lock ", path));
  struct flock whole = {};
  whole.l_type = shared ? F_RDLCK : F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (RetryOnSignal([&] { return ::fcntl(fd, F_OFD_SETLK, &whole); }) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  return Annotate(ErrnoStatus(errno, absl::StrCat("lock ", path)),
                  "this file system has no locks (mount a network one with them), so two runs "
                  "could not be kept apart");
}

}  // namespace spillway
