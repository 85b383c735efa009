// The file system of this machine.
#include "io/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"
#include "io/create_io_engine.h"
#include "io/own_files.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

class RealNewFile final : public NewFile {
 public:
  RealNewFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::Status Append(absl::string_view content) override {
    const int error = WriteAll(fd_.get(), content.data(), content.size());
    if (error == 0) return absl::OkStatus();
    return ErrnoStatus(error, absl::StrCat("write ", content.size(), " bytes to ", path_));
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

  absl::StatusOr<std::string> ReadSmallFile(absl::string_view path, uint64_t limit_bytes) override {
    return spillway::ReadSmallFile(path, limit_bytes);
  }

  absl::StatusOr<std::unique_ptr<NewFile>> Create(absl::string_view path,
                                                  FileAccess access) override {
    std::string name(path);
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    UniqueFd fd(RetryOnSignal([&] { return ::open(name.c_str(), flags, FileMode(access)); }));
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

  absl::Status CreateDirectory(absl::string_view path, FileAccess access) override {
    if (::mkdir(std::string(path).c_str(), DirectoryMode(access)) != 0) {
      return ErrnoStatus(errno, absl::StrCat("create directory ", path));
    }
    return absl::OkStatus();
  }

  absl::Status RemoveDirectory(absl::string_view path) override {
    if (::rmdir(std::string(path).c_str()) != 0) {
      return ErrnoStatus(errno, absl::StrCat("remove directory ", path));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(absl::string_view path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(std::string(path).c_str()),
                                                     ::closedir);
    if (stream == nullptr) return ErrnoStatus(errno, absl::StrCat("list ", path));
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(stream.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
      errno = 0;
    }
    if (errno != 0) return ErrnoStatus(errno, absl::StrCat("list ", path));
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<FileInfo> Stat(absl::string_view path, SymbolicLink symbolic_link) override {
    const std::string name(path);
    struct stat info;
    if ((symbolic_link == SymbolicLink::kFollow ? ::stat(name.c_str(), &info)
                                                : ::lstat(name.c_str(), &info)) != 0) {
      return ErrnoStatus(errno == ENOTDIR ? ENOENT : errno, absl::StrCat("look at ", path));
    }
    // st_blocks counts these, whatever the filesystem's own blocks are.
    constexpr uint64_t kStatBlockBytes = 512;
    FileInfo found;
    found.kind = S_ISREG(info.st_mode)   ? FileInfo::Kind::kFile
                 : S_ISDIR(info.st_mode) ? FileInfo::Kind::kDirectory
                                         : FileInfo::Kind::kOther;
    found.user = info.st_uid;
    found.size_bytes = S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0;
    found.allocated_bytes = static_cast<uint64_t>(info.st_blocks) * kStatBlockBytes;
    found.modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
    found.identity = {info.st_dev, info.st_ino};
    return found;
  }

  std::string Resolve(absl::string_view path) override {
    std::error_code error;
    const fs::path real = fs::weakly_canonical(fs::absolute(std::string(path), error), error);
    return error ? std::string(path) : real.string();
  }

  absl::Status SyncDirectory(absl::string_view path) override {
    return spillway::SyncDirectory(path);
  }

  absl::StatusOr<std::unique_ptr<OwnDirectory>> OpenOwn(absl::string_view path,
                                                        DirectoryUse use) override {
    return OpenOwnDirectory(path, use);
  }

  absl::StatusOr<uint64_t> FreeBytes(absl::string_view path) override {
    return FreeSpaceBytes(path);
  }

  bool MayWriteIn(absl::string_view path) override {
    return ::access(std::string(path).c_str(), W_OK | X_OK) == 0;
  }

  void Pause(absl::Duration time) override { absl::SleepFor(time); }

  absl::StatusOr<uint64_t> RandomNumber() override {
    uint64_t random = 0;
    if (RetryOnSignal([&] { return ::getrandom(&random, sizeof(random), 0); }) != sizeof(random)) {
      return ErrnoStatus(errno, "draw a random name");
    }
    return random;
  }
};

absl::Status WriteAndSync(FileSystem& files, const std::string& path, absl::string_view content,
                          FileAccess access, bool* taken) {
  ASSIGN_OR_RETURN(const std::unique_ptr<NewFile> file, files.Create(path, access));
  RETURN_IF_ERROR(file->Append(content));
  *taken = true;
  RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

FileSystem& FileSystem::Real() {
  static RealFileSystem& files = *new RealFileSystem;
  return files;
}

absl::Status CreateDirectories(FileSystem& files, absl::string_view path, FileAccess access,
                               std::vector<std::string>* created) {
  const std::string name(path), parent = ParentPath(path);
  const auto found = files.Stat(name, SymbolicLink::kFollow);
  if (absl::IsNotFound(found.status())) {
    if (parent != name) RETURN_IF_ERROR(CreateDirectories(files, parent, access, created));
    const absl::Status made = files.CreateDirectory(name, access);
    if (made.ok() && created != nullptr) created->insert(created->begin(), name);
    if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  }
  return SyncIntoParent(files, name);
}

absl::Status SyncIntoParent(FileSystem& files, absl::string_view path) {
  const absl::Status synced = files.SyncDirectory(ParentPath(path));
  const bool passed_over = absl::IsPermissionDenied(synced) || absl::IsInvalidArgument(synced);
  return passed_over ? absl::OkStatus() : synced;
}

absl::StatusOr<std::unique_ptr<File>> OpenInPlace(FileSystem& files, absl::string_view path,
                                                  FileAccess access) {
  auto file = files.Open(path, {.write = true, .direct = false});
  if (!absl::IsNotFound(file.status())) return file;
  return files.Open(path, {.write = true, .create = true, .access = access, .direct = false});
}

bool Exists(absl::string_view path, FileSystem& files) {
  return files.Stat(path, SymbolicLink::kFollow).ok();
}

bool IsDirectory(absl::string_view path, FileSystem& files) {
  const auto found = files.Stat(path, SymbolicLink::kFollow);
  return found.ok() && found->kind == FileInfo::Kind::kDirectory;
}

bool SameFile(absl::string_view a, absl::string_view b, FileSystem& files) {
  const auto one = files.Stat(a, SymbolicLink::kFollow);
  const auto other = files.Stat(b, SymbolicLink::kFollow);
  return one.ok() && other.ok() && one->identity == other->identity &&
         one->kind != FileInfo::Kind::kOther;
}

std::string ParentPath(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  const size_t end = path.find_last_not_of('/', slash);  // the slash may be doubled
  return end == absl::string_view::npos ? "/" : std::string(path.substr(0, end + 1));
}

std::string FileName(absl::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string NormalPath(absl::string_view path) {
  const fs::path normal = fs::path(std::string(path)).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

std::string RelativePath(absl::string_view path, absl::string_view directory) {
  return fs::path(std::string(path)).lexically_relative(std::string(directory)).string();
}

absl::StatusOr<std::string> AbsolutePath(absl::string_view path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(std::string(path), error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("find directory ", path));
  return absolute.string();
}

absl::StatusOr<std::string> CanonicalPath(absl::string_view path, absl::string_view what) {
  std::error_code error;
  const fs::path canonical = fs::canonical(std::string(path), error);
  if (error) return ErrnoStatus(error.value(), what);
  return canonical.string();
}

std::string TemporaryDirectory() {
  std::error_code error;
  return fs::temp_directory_path(error).string();
}

int CreateSharedDirectories(absl::string_view path) {
  std::error_code error;
  fs::create_directories(std::string(path), error);
  return error.value();
}

absl::StatusOr<std::string> ResolveForWriting(FileSystem& files, absl::string_view path) {
  const std::string resolved = files.Resolve(path);
  const auto found = files.Stat(resolved);
  if (found.ok() && found->kind != FileInfo::Kind::kFile) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is no regular file, and is not replaced by one: give another path"));
  }
  return resolved;
}

absl::Status WriteFileAtomically(FileSystem& files, absl::string_view path,
                                 absl::string_view content, FileAccess access, bool* taken) {
  bool ignored;
  if (taken == nullptr) taken = &ignored;
  *taken = false;
  const std::string name(path);
  ASSIGN_OR_RETURN(const uint64_t random, files.RandomNumber());
  const std::string temporary = AtomicWriteName(name, random);
  absl::Status status = WriteAndSync(files, temporary, content, access, taken);
  if (status.ok()) status = files.Rename(temporary, name);
  if (!status.ok()) {
    (void)files.Remove(temporary);
    return status;
  }
  return files.SyncDirectory(ParentPath(name));
}

absl::Status WriteFileAtomically(absl::string_view path, absl::string_view content,
                                 FileAccess access) {
  return WriteFileAtomically(FileSystem::Real(), path, content, access);
}

absl::Status RemoveIfThere(FileSystem& files, absl::string_view path) {
  const absl::Status removed = files.Remove(path);
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

absl::Status RemoveAtomicWriteLeftovers(FileSystem& files, absl::string_view directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  for (const std::string& name : names) {
    if (!IsAtomicWriteLeftover(name)) continue;
    RETURN_IF_ERROR(RemoveIfThere(files, absl::StrCat(directory, "/", name)));
  }
  return absl::OkStatus();
}

}  // namespace spillway
