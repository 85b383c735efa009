// Reads and writes whole blocks of a few files at an engine's full speed for a while, and counts
// bytes: the basis of disk benchmarks. Reads are prefetches and writes write-back, like most of
// training's.
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

// A file without a name in `folder` (File::CreateNameless), with `size_bytes` reserved.
absl::StatusOr<std::unique_ptr<File>> OpenNamelessFile(const std::string& folder,
                                                       uint64_t size_bytes);

enum class PassMix : uint8_t {
  kRead,
  kWrite,
  kAlternate,  // equal bytes each way: rows of blocks over the files alternate
  kBoth,       // half of the blocks in flight read and half write, each at its own pace
};

struct DiskPassOptions {
  PassMix mix = PassMix::kRead;
  double seconds = 1;       // no transfer starts later
  uint64_t blocks = 0;      // limit; 0: as many as time allows
  uint64_t file_bytes = 0;  // the part of each file that is used repeatedly
  // Called before each block; may be empty. True ends the pass with kCancelled after transfers in
  // flight.
  std::function<bool()> stopped = {};
};

struct DiskPassResult {
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  double seconds = 0;            // to the last completion
  double processor_seconds = 0;  // of the process during the pass

  uint64_t bytes() const { return read_bytes + written_bytes; }
  double bytes_per_second() const;
};

// Distributes blocks over the files in turn, `window` of them in flight, each with its own part of
// `buffer` (window * block_bytes, aligned for the files). Owner thread of the engine; all arguments
// outlive the pass.
class DiskPass {
 public:
  DiskPass(IoEngine* engine, std::vector<const File*> files, char* buffer, uint64_t block_bytes,
           int window);

  // The first error ends the pass, after transfers in flight.
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
  uint64_t rows_ = 1;  // of blocks over the files, before the pass wraps around
  DiskPassResult result_;
  absl::Status failure_;  // the first
};

}  // namespace spillway
