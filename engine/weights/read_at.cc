#include "engine/weights/read_at.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"

namespace spillway {

absl::Status ReadAt(int fd, const std::string& path, uint64_t offset_bytes, void* data,
                    uint64_t size_bytes) {
  char* out = static_cast<char*>(data);
  uint64_t done_bytes = 0;
  while (done_bytes < size_bytes) {
    const ssize_t got = RetryOnSignal([&] {
      return ::pread(fd, out + done_bytes, size_bytes - done_bytes,
                     static_cast<off_t>(offset_bytes + done_bytes));
    });
    if (got < 0) {
      return ErrnoStatus(
          errno, absl::StrCat("read ", size_bytes, " bytes at ", offset_bytes, " of ", path));
    }
    if (got == 0) {
      return WrongBytesError(absl::StrCat(path, ": ends at byte ", offset_bytes + done_bytes, ", ",
                                          size_bytes - done_bytes,
                                          " bytes too soon: it has become shorter"));
    }
    done_bytes += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace spillway
