// The machine's own file system.
#include "io/file_system.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"
#include "io/create_io_engine.h"
#include "io/own_files.h"

namespace spillway {
namespace {

class RealNewFile final : public NewFile {
 public:
  RealNewFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::Status Append(absl::string_view content) override {
    size_t done_bytes = 0;
    while (done_bytes < content.size()) {
      const ssize_t written = RetryOnSignal([&] {
        return ::write(fd_.get(), content.data() + done_bytes, content.size() - done_bytes);
      });
      if (written <= 0) {
        return ErrnoStatus(written < 0 ? errno : EIO,
                           absl::StrCat("write ", content.size(), " bytes to ", path_));
      }
      done_bytes += static_cast<size_t>(written);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (RetryOnSignal([&] { return ::fdatasync(fd_.get()); }) != 0) {
      return ErrnoStatus(errno, absl::StrCat("sync ", path_));
    }
    return absl::OkStatus();
  }

  absl::Status Close() override {
    if (::close(fd_.Release()) != 0 && errno != EINTR) {
      return ErrnoStatus(errno, absl::StrCat("close ", path_));
    }
    return absl::OkStatus();
  }

 private:
  UniqueFd fd_;
  const std::string path_;
};

class RealFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<File>> Open(absl::string_view path,
                                             const FileOptions& options) override {
    return File::Open(path, options);
  }

  absl::StatusOr<std::unique_ptr<IoEngine>> CreateEngine(const IoEngineOptions& options) override {
    return CreateIoEngine(options);
  }

  absl::StatusOr<std::string> ReadSmallFile(absl::string_view path) override {
    return spillway::ReadSmallFile(path);
  }

  absl::StatusOr<std::unique_ptr<NewFile>> Create(absl::string_view path) override {
    std::string name(path);
    UniqueFd fd(RetryOnSignal([&] {
      return ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }));
    if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("create ", name));
    return std::make_unique<RealNewFile>(std::move(fd), std::move(name));
  }

  absl::Status Rename(absl::string_view from, absl::string_view to) override {
    if (::rename(std::string(from).c_str(), std::string(to).c_str()) != 0) {
      return ErrnoStatus(errno, absl::StrCat("rename ", from, " to ", to));
    }
    return absl::OkStatus();
  }

  absl::Status Remove(absl::string_view path) override {
    if (::unlink(std::string(path).c_str()) != 0) {
      return ErrnoStatus(errno, absl::StrCat("remove ", path));
    }
    return absl::OkStatus();
  }

  absl::Status SyncDirectory(absl::string_view path) override {
    return spillway::SyncDirectory(path);
  }

  absl::StatusOr<uint64_t> RandomNumber() override {
    uint64_t random = 0;
    if (RetryOnSignal([&] { return ::getrandom(&random, sizeof(random), 0); }) != sizeof(random)) {
      return ErrnoStatus(errno, "draw a random name");
    }
    return random;
  }
};

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return path.substr(0, std::max<size_t>(slash, 1));
}

absl::Status WriteAndSync(FileSystem& files, const std::string& path, absl::string_view content) {
  ASSIGN_OR_RETURN(const std::unique_ptr<NewFile> file, files.Create(path));
  RETURN_IF_ERROR(file->Append(content));
  RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

FileSystem& FileSystem::Real() {
  static RealFileSystem& files = *new RealFileSystem;
  return files;
}

absl::Status WriteFileAtomically(FileSystem& files, absl::string_view path,
                                 absl::string_view content) {
  const std::string name(path);
  ASSIGN_OR_RETURN(const uint64_t random, files.RandomNumber());
  const std::string temporary = AtomicWriteName(name, random);
  absl::Status status = WriteAndSync(files, temporary, content);
  if (status.ok()) status = files.Rename(temporary, name);
  if (!status.ok()) {
    (void)files.Remove(temporary);
    return status;
  }
  return files.SyncDirectory(DirectoryOf(name));
}

absl::Status WriteFileAtomically(absl::string_view path, absl::string_view content) {
  return WriteFileAtomically(FileSystem::Real(), path, content);
}

}  // namespace spillway
