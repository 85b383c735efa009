#include "engine/machine/probe_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/machine/block_device.h"
#include "io/base/aligned_bytes.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"
#include "io/file.h"

namespace spillway {
namespace {

constexpr size_t kTrialBytes = 64 << 10;
constexpr size_t kTrialAlignment = 4096;

// Reads the properties of the drive, for a partition the whole drive's.
void AskDrive(dev_t device, PathFacts* facts) {
  const std::string block = absl::StrCat("/sys/dev/block/", major(device), ":", minor(device));
  for (const char* above : {"", "/.."}) {
    const std::string rotational = ReadFirstLine(absl::StrCat(block, above, "/queue/rotational"));
    if (rotational.empty()) continue;
    facts->rotational = rotational == "1";
    facts->drive = ReadFirstLine(absl::StrCat(block, above, "/device/model"));
    return;
  }
}

// Writes and reads back bytes through `fd` with its current flags.
absl::Status RoundTrip(int fd, const std::string& path, size_t size_bytes) {
  const AlignedBytes out = NewAlignedBytes(size_bytes), back = NewAlignedBytes(size_bytes);
  for (size_t i = 0; i < size_bytes; ++i) out.get()[i] = static_cast<char>(i * 131 >> 3);
  std::memset(back.get(), 0, size_bytes);
  const ssize_t written = RetryOnSignal([&] { return ::pwrite(fd, out.get(), size_bytes, 0); });
  if (written != static_cast<ssize_t>(size_bytes)) {
    return ErrnoStatus(written < 0 ? errno : ENOSPC,
                       absl::StrCat("write ", size_bytes, " bytes to a file in ", path));
  }
  const ssize_t got = RetryOnSignal([&] { return ::pread(fd, back.get(), size_bytes, 0); });
  if (got != static_cast<ssize_t>(size_bytes)) {
    return ErrnoStatus(got < 0 ? errno : EIO, absl::StrCat("read a file in ", path));
  }
  if (std::memcmp(out.get(), back.get(), size_bytes) != 0) {
    return WrongBytesError(
        absl::StrCat("a file in ", path, " gives other bytes than were written to it"));
  }
  return absl::OkStatus();
}

absl::Status TryFile(const std::string& path, PathFacts* facts) {
  ASSIGN_OR_RETURN(const auto file, File::CreateNameless(path, /*direct=*/false));
  const int fd = file->fd();
  facts->writable = true;
  facts->reserves = RetryOnSignal([&] { return ::fallocate(fd, 0, 0, kTrialBytes); }) == 0;
  RETURN_IF_ERROR(RoundTrip(fd, path, kTrialBytes));
  facts->alignment_bytes = EnableDirectIo(fd);
  const size_t multiple = std::max<size_t>(facts->alignment_bytes, kTrialAlignment);
  facts->direct = facts->alignment_bytes > 0 && RoundTrip(fd, path, 16 * multiple).ok();
  return absl::OkStatus();
}

}  // namespace

FilesystemKind KindOfFilesystem(absl::string_view name) {
  for (const absl::string_view memory : {"tmpfs", "ramfs", "hugetlbfs"}) {
    if (name == memory) return FilesystemKind::kMemory;
  }
  for (const absl::string_view layered : {"overlay", "aufs", "fuse.fuse-overlayfs"}) {
    if (name == layered) return FilesystemKind::kOverlay;
  }
  for (const absl::string_view remote :
       {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "lustre", "gpfs", "beegfs", "9p", "afs",
        "glusterfs", "virtiofs", "pvfs2", "wekafs"}) {
    if (name == remote) return FilesystemKind::kNetwork;
  }
  return absl::StartsWith(name, "fuse.") ? FilesystemKind::kNetwork : FilesystemKind::kDisk;
}

bool IsKernelFilesystem(absl::string_view name) {
  for (const absl::string_view kernel :
       {"proc", "sysfs", "cgroup", "cgroup2", "devpts", "debugfs", "tracefs", "securityfs", "bpf",
        "configfs", "pstore", "efivarfs", "binfmt_misc"}) {
    if (name == kernel) return true;
  }
  return false;
}

PathFacts ProbePath(const std::string& path) {
  PathFacts facts;
  facts.path = path;
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    facts.status = ErrnoStatus(errno, absl::StrCat("look at ", path));
    return facts;
  }
  facts.exists = true;
  facts.owner = info.st_uid;
  facts.is_directory = S_ISDIR(info.st_mode);
  if (!facts.is_directory) {
    facts.status = absl::InvalidArgumentError(absl::StrCat(path, " is not a directory"));
    return facts;
  }
  const MountPoint mount = FindMount(path);
  facts.filesystem = mount.filesystem;
  facts.source = mount.source;
  AskDrive(info.st_dev, &facts);
  struct statvfs space;
  if (::statvfs(path.c_str(), &space) == 0) {
    facts.free_bytes = static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
    facts.total_bytes = static_cast<uint64_t>(space.f_blocks) * space.f_frsize;
    facts.free_inodes = space.f_favail;
    facts.total_inodes = space.f_files;
  }
  facts.status = TryFile(path, &facts);
  return facts;
}

}  // namespace spillway
