// Reads and writes whole blocks of a few files for a while, as fast as an engine will, and
// says how many bytes that were: what benchmarks of the disk are made of. Reads are
// prefetches and writes write-back, as most of training's are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/file.h"
#include "io/io_engine.h"

namespace spillway {

// A file in `folder` without a name, as File::CreateNameless, with `size_bytes` reserved.
absl::StatusOr<std::unique_ptr<File>> OpenNamelessFile(const std::string& folder,
                                                       uint64_t size_bytes);

enum class PassMix : uint8_t {
  kRead,
  kWrite,
  kAlternate,  // as many bytes each way: every other row of blocks over the files
  kBoth,       // half of the blocks in flight read and the others write, each at its own pace
};

struct DiskPassOptions {
  PassMix mix = PassMix::kRead;
  double seconds = 1;       // nothing is started later than that
  uint64_t blocks = 0;      // at most so many; 0: as many as there is time for
  uint64_t file_bytes = 0;  // the part of each file that is used, over and over
  // Looked at before each block; may be empty. True ends the pass with kCancelled, when
  // nothing is under way any more.
  std::function<bool()> stopped = {};
};

struct DiskPassResult {
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  double seconds = 0;            // to the last completion
  double processor_seconds = 0;  // of the process meanwhile

  uint64_t bytes() const { return read_bytes + written_bytes; }
  double bytes_per_second() const;
};

// Blocks are dealt to the files in turn, `window` of them under way at once, each with its
// own part of `buffer` (window * block_bytes, aligned as the files want it). On the engine's
// owner thread; all of it outlives the pass.
class DiskPass {
 public:
  DiskPass(IoEngine* engine, std::vector<const File*> files, char* buffer, uint64_t block_bytes,
           int window);

  // The first error ends it, when nothing is under way any more.
  absl::StatusOr<DiskPassResult> Run(const DiskPassOptions& options);

 private:
  struct Slot {
    DiskPass* pass = nullptr;
    bool busy = false;
    IoRequest request;
  };
  void Submit(Slot& slot, size_t index, uint64_t block, bool read);

  IoEngine* const engine_;
  const std::vector<const File*> files_;
  char* const buffer_;
  const uint64_t block_bytes_;
  std::vector<Slot> slots_;
  uint64_t rows_ = 1;  // of blocks over the files, before it starts again at the first
  DiskPassResult result_;
  absl::Status failure_;  // the first
};

}  // namespace spillway
