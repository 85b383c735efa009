// A file of the user's that a run reads again and again, such as a .bin of tokens. It is read
// through once, which keeps a checksum of every block in a temporary file; each later read is
// verified against these, so that nobody can change under the run what it learns from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/scratch_file.h"
#include "io/base/mutex.h"
#include "io/base/unique_fd.h"
#include "io/file_system.h"

namespace spillway {

// How `now` differs from `then`, by size and time alone: "it has 5 bytes and had 9"; "" where it
// does not.
std::string DescribeChange(const FileInfo& then, const absl::StatusOr<FileInfo>& now);

// kDataLoss: `path`, of the run's data, is not as it was (`how`); with what is safe and what to do.
absl::Status DataChangedError(absl::string_view path, absl::string_view how);

class SteadyFile {
 public:
  // Follows links. kNotFound for a missing file, kInvalidArgument for what is not a plain file.
  static absl::StatusOr<std::unique_ptr<SteadyFile>> Open(const std::string& path,
                                                          absl::string_view scratch_directory);

  uint64_t size_bytes() const { return info_at_open_.size_bytes; }

  // The next bytes of the first pass, in order from the first byte on. One thread.
  absl::Status ReadNext(char* out, uint64_t size_bytes);
  // After the last one.
  absl::Status EndFirstPass();

  // After EndFirstPass; any thread. Looks at what the path names too: kDataLoss where its size
  // changed, where it is gone, or where it was written to or replaced and does not hold the bytes
  // of the first pass. One that holds the same bytes is warned of. REQUIRES: they were read by
  // then.
  absl::Status Read(uint64_t offset_bytes, char* out, uint64_t size_bytes) const;

 private:
  static constexpr uint64_t kBlockBytes = 16 << 10;

  SteadyFile(std::string path, UniqueFd fd, FileInfo info, ScratchNumbers sums)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        info_at_open_(info),
        sums_(std::move(sums)),
        info_(info) {}
  absl::Status CheckNamed() const;
  absl::Status CompareAll(int fd) const;
  // Reads a block into `buffer` and compares its checksum.
  absl::Status ReadBlock(int fd, uint64_t block, char* buffer) const;

  const std::string path_;
  const UniqueFd fd_;
  const FileInfo info_at_open_;
  ScratchNumbers sums_;  // of each block
  std::string held_;     // of a block that the first pass has not ended
  uint64_t next_bytes_ = 0;
  mutable Mutex mutex_;
  mutable FileInfo info_ ABSL_GUARDED_BY(mutex_);  // of what holds the right bytes
};

}  // namespace spillway
