#include "engine/data/text_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"

namespace spillway {
namespace {

constexpr size_t kPieceBytes = 256 << 10;

}  // namespace

absl::Status ReadInPieces(const std::string& path,
                          const std::function<absl::Status(absl::string_view)>& take) {
  const UniqueFd fd(
      RetryOnSignal([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a plain file"));
  }
  std::string piece(kPieceBytes, '\0');
  while (true) {
    const ssize_t got = RetryOnSignal([&] { return ::read(fd.get(), piece.data(), piece.size()); });
    if (got < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
    if (got == 0) return absl::OkStatus();
    RETURN_IF_ERROR(take(absl::string_view(piece.data(), static_cast<size_t>(got))));
  }
}

}  // namespace spillway
