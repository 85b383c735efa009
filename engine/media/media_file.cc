#include "engine/media/media_file.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/text_reader.h"
#include "engine/base/work_count.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<std::unique_ptr<MediaFile>> MediaFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(PlainFile file, OpenPlainFile(path));
  if (file.size_bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": it is empty; replace or remove it"));
  }
  return std::unique_ptr<MediaFile>(new MediaFile(path, std::move(file.fd), file.size_bytes));
}

size_t MediaFile::Read(void* to, size_t bytes) {
  size_t read = 0;
  while (read < bytes && error_ == 0 && !GivesUp()) {
    const ssize_t got = RetryOnSignal([&] {
      return ::pread(fd_.get(), static_cast<char*>(to) + read, bytes - read,
                     static_cast<off_t>(offset_));
    });
    if (got < 0) error_ = errno;
    if (got <= 0) break;
    WorkCount::Add(static_cast<uint64_t>(got));
    read += static_cast<size_t>(got);
    offset_ += static_cast<uint64_t>(got);
  }
  return read;
}

absl::Status MediaFile::status() const {
  if (error_ != 0) return ErrnoStatus(error_, absl::StrCat("read ", path_, " at ", offset_));
  return given_up_ ? StopSignal::Check() : absl::OkStatus();
}

}  // namespace spillway
