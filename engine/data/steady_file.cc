#include "engine/data/steady_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/stop_signal.h"
#include "engine/base/text_reader.h"
#include "io/base/check.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/checksum.h"

namespace spillway {
namespace {

bool IsTheSame(const FileInfo& a, const FileInfo& b) {
  return a.size_bytes == b.size_bytes && a.modified_ns == b.modified_ns && a.identity == b.identity;
}

}  // namespace

std::string DescribeChange(const FileInfo& then, const absl::StatusOr<FileInfo>& now) {
  if (absl::IsNotFound(now.status())) return "it is not there any more";
  if (!now.ok()) return "";  // the next read reports it
  if (now->size_bytes != then.size_bytes) {
    return absl::StrCat("it has ", now->size_bytes, " bytes and had ", then.size_bytes);
  }
  return now->modified_ns != then.modified_ns ? "it was written to" : "";
}

absl::Status DataChangedError(absl::string_view path, absl::string_view how) {
  return WrongBytesError(absl::StrCat(
      path, " has changed since it was first read (", how,
      "). What a run committed before is good, and nothing is learnt from what is there now: bring "
      "the file back as it was and go on with --resume, or go on with the new one (--resume "
      "--allow-change data)"));
}

absl::StatusOr<std::unique_ptr<SteadyFile>> SteadyFile::Open(const std::string& path,
                                                             absl::string_view scratch_directory) {
  ASSIGN_OR_RETURN(PlainFile file, OpenPlainFile(path));
  ASSIGN_OR_RETURN(const FileInfo info, FileSystem::Real().Stat(path, SymbolicLink::kFollow));
  ASSIGN_OR_RETURN(ScratchNumbers sums, ScratchNumbers::Create(scratch_directory));
  return std::unique_ptr<SteadyFile>(
      new SteadyFile(path, std::move(file.fd), info, std::move(sums)));
}

absl::Status SteadyFile::ReadNext(char* out, uint64_t size_bytes) {
  RETURN_IF_ERROR(ReadAt(fd_.get(), path_, next_bytes_, out, size_bytes));
  next_bytes_ += size_bytes;
  while (size_bytes > 0) {
    const uint64_t n = std::min(size_bytes, kBlockBytes - held_.size());
    held_.append(out, n);
    out += n;
    size_bytes -= n;
    if (held_.size() < kBlockBytes) break;
    RETURN_IF_ERROR(sums_.Append(static_cast<int64_t>(Checksum(held_.data(), held_.size()))));
    held_.clear();
  }
  return absl::OkStatus();
}

absl::Status SteadyFile::EndFirstPass() {
  if (!held_.empty()) {
    RETURN_IF_ERROR(sums_.Append(static_cast<int64_t>(Checksum(held_.data(), held_.size()))));
  }
  held_ = std::string();
  return sums_.Flush();
}

absl::Status SteadyFile::ReadBlock(int fd, uint64_t block, char* buffer) const {
  const uint64_t begin = block * kBlockBytes;
  const uint64_t size_bytes = std::min(kBlockBytes, next_bytes_ - begin);
  RETURN_IF_ERROR(ReadAt(fd, path_, begin, buffer, size_bytes));
  int64_t expected = 0;
  RETURN_IF_ERROR(sums_.Read(static_cast<int64_t>(block), 1, &expected));
  if (Checksum(buffer, size_bytes) == static_cast<uint64_t>(expected)) return absl::OkStatus();
  return DataChangedError(path_, absl::StrCat("the bytes from ", begin,
                                              " on are not those that were read at the start"));
}

absl::Status SteadyFile::Read(uint64_t offset_bytes, char* out, uint64_t size_bytes) const {
  SPILLWAY_CHECK(offset_bytes <= next_bytes_ && size_bytes <= next_bytes_ - offset_bytes);
  RETURN_IF_ERROR(CheckNamed());
  std::array<char, kBlockBytes> buffer;
  while (size_bytes > 0) {
    const uint64_t block = offset_bytes / kBlockBytes, within = offset_bytes % kBlockBytes;
    RETURN_IF_ERROR(ReadBlock(fd_.get(), block, buffer.data()));
    const uint64_t n = std::min(size_bytes, kBlockBytes - within);
    std::memcpy(out, buffer.data() + within, n);
    out += n;
    offset_bytes += n;
    size_bytes -= n;
  }
  return absl::OkStatus();
}

absl::Status SteadyFile::CheckNamed() const {
  const auto now = FileSystem::Real().Stat(path_, SymbolicLink::kFollow);
  const MutexLock lock(mutex_);
  if (now.ok() && IsTheSame(info_, *now)) return absl::OkStatus();
  // The open file is unchanged; a server that does not answer is no change.
  if (!now.ok() && !absl::IsNotFound(now.status())) return absl::OkStatus();
  if (!now.ok() || now->size_bytes != info_.size_bytes) {
    return DataChangedError(path_, DescribeChange(info_, now));
  }
  // Some network file systems change a file's inode number, and a time alone is no proof.
  LogInfo(
      absl::StrCat(path_, " was written to or replaced: comparing it with what was read before"));
  ASSIGN_OR_RETURN(const PlainFile named, OpenPlainFile(path_));
  const absl::Status same = CompareAll(named.fd.get());
  if (absl::IsCancelled(same)) return absl::OkStatus();  // the run stops after this step
  RETURN_IF_ERROR(same);
  LogWarning(absl::StrCat(path_,
                          " was written to or replaced while the run reads it, with the same "
                          "bytes: the run goes on"));
  info_ = *now;
  return absl::OkStatus();
}

absl::Status SteadyFile::CompareAll(int fd) const {
  std::array<char, kBlockBytes> buffer;
  for (int64_t block = 0; block < sums_.size(); ++block) {
    if (block % 1024 == 0) RETURN_IF_ERROR(StopSignal::Check());
    RETURN_IF_ERROR(ReadBlock(fd, static_cast<uint64_t>(block), buffer.data()));
  }
  return absl::OkStatus();
}

}  // namespace spillway
