// A user's file that a run reads repeatedly, such as a .bin of tokens. A first pass stores a
// checksum of every block in a temporary file; later reads are verified against these, so that
// changes during the run are detected.
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

// How `now` differs from `then` by size and time: "it has 5 bytes and had 9"; "" if it does not.
std::string DescribeChange(const FileInfo& then, const absl::StatusOr<FileInfo>& now);

// kDataLoss: `path`, data of the run, has changed (`how`); with what is safe and the remedy.
absl::Status DataChangedError(absl::string_view path, absl::string_view how);

class SteadyFile {
 public:
  // Follows links. kNotFound for a missing file, kInvalidArgument for anything but a plain file.
  static absl::StatusOr<std::unique_ptr<SteadyFile>> Open(const std::string& path,
                                                          absl::string_view scratch_directory);

  uint64_t size_bytes() const { return info_at_open_.size_bytes; }

  // Reads the next bytes of the first pass, in order from the start. One thread.
  absl::Status ReadNext(char* out, uint64_t size_bytes);
  // Call after the last ReadNext.
  absl::Status EndFirstPass();

  // After EndFirstPass; any thread. Also checks the path: kDataLoss if its size changed, if it is
  // gone, or if it was written or replaced and differs from the first pass. If the content is the
  // same, a change is only warned of. REQUIRES: the first pass has read these bytes.
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
  ScratchNumbers sums_;  // [block]
  std::string held_;     // of the first pass's current block
  uint64_t next_bytes_ = 0;
  mutable Mutex mutex_;
  mutable FileInfo info_ ABSL_GUARDED_BY(mutex_);  // of the file with the right bytes
};

}  // namespace spillway
