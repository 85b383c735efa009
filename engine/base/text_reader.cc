#include "engine/base/text_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/stop_signal.h"
#include "engine/base/work_count.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<PlainFile> OpenPlainFile(const std::string& path) {
  PlainFile file;
  file.fd = UniqueFd(
      RetryOnSignal([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!file.fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  struct stat info;
  if (::fstat(file.fd.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, S_ISDIR(info.st_mode)
                                                             ? " is not a plain file but a folder"
                                                             : " is not a plain file"));
  }
  file.size_bytes = static_cast<uint64_t>(info.st_size);
  return file;
}

absl::Status ReadInPieces(const std::string& path,
                          const std::function<absl::Status(absl::string_view)>& take) {
  ASSIGN_OR_RETURN(const PlainFile file, OpenPlainFile(path));
  std::string piece(256 << 10, '\0');
  for (bool first = true;; first = false) {
    const ssize_t got =
        RetryOnSignal([&] { return ::read(file.fd.get(), piece.data(), piece.size()); });
    if (got < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
    if (got == 0) return absl::OkStatus();
    RETURN_IF_ERROR(StopSignal::Check());
    WorkCount::Add(static_cast<uint64_t>(got));
    absl::string_view text(piece.data(), static_cast<size_t>(got));
    if (first) absl::ConsumePrefix(&text, "\xef\xbb\xbf");
    RETURN_IF_ERROR(take(text));
  }
}

}  // namespace spillway
