// The set-up of every measurement of `bench io`: files, a buffer and an engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/file.h"
#include "io/io_engine.h"

namespace spillway {

enum class IoBenchOp {
  kRead,   // in order, as prefetch
  kWrite,  // in order, as write-back
  kMixed,  // as many reads as writes
  // One read at a time of a random block as demand: alone, then under full write-back.
  kDemand,
};

struct IoBenchOptions {
  // A file in each; blocks are distributed over them in turn.
  std::vector<std::string> directories;
  IoBenchOp op = IoBenchOp::kRead;
  // Size of all files together.
  uint64_t size_bytes = uint64_t{4} << 30;
  // Duration of each measurement; 0: one pass over the files (kDemand: 3 seconds).
  double seconds = 0;
  // Writes compute checksums and reads check them.
  bool verify = false;
  // Called before each block, also of the initial writes; may be empty. True ends the benchmark
  // with kCancelled.
  std::function<bool()> stopped = {};
  // Registers the files and the buffer, which has a quarter more blocks than `depth`.
  IoEngineOptions io;
};

class IoBenchBed;

// A request for one block, with its own place in the buffer. The submitter sets `finished` and
// `context`; IoBenchBed sets `done`.
struct BenchSlot : IoRequest {
  void (*finished)(BenchSlot& slot, const absl::Status& status) = nullptr;
  uint64_t block = 0;
  int64_t submitted_ns = 0;
  IoBenchBed* bed = nullptr;
};

// One thread. REQUIRES for destruction: nothing is pending.
class IoBenchBed {
 public:
  // Creates the files and writes them once. `slots`: concurrent requests, limited by the number of
  // blocks. kInvalidArgument, with the minimum size, if there are fewer blocks than the depth (plus
  // one for kDemand).
  static absl::StatusOr<std::unique_ptr<IoBenchBed>> Create(const IoBenchOptions& options,
                                                            uint32_t slots);
  ~IoBenchBed();

  IoEngine& engine() { return *engine_; }
  std::vector<BenchSlot>& slots() { return slots_; }
  uint64_t num_blocks() const { return num_blocks_; }
  bool direct() const;
  bool stopped() const { return options_.stopped && options_.stopped(); }

  // Submits the request for the first block from `wanted` on (modulo num_blocks) without a request
  // in flight: two requests for one block are unordered, and a read would return neither's data.
  // With `verify`, writes have new content whose checksum is kept. Returns the block. There are at
  // least as many blocks as slots, so one is free.
  uint64_t Submit(BenchSlot& slot, IoOp op, IoClass io_class, uint64_t wanted);

  // With `verify`: kDataLoss unless the slot holds the block's last written content.
  absl::Status Check(const BenchSlot& slot) const;

 private:
  explicit IoBenchBed(const IoBenchOptions& options) : options_(options) {}
  absl::Status MakeFiles();
  absl::Status MakeBuffer(uint32_t slots);
  absl::Status FillFiles();

  const IoBenchOptions options_;
  uint64_t num_blocks_ = 0;
  std::vector<std::unique_ptr<File>> files_;
  char* buffer_ = nullptr;
  uint64_t buffer_bytes_ = 0;
  std::vector<BenchSlot> slots_;
  std::vector<bool> under_way_;      // [block]
  std::vector<uint64_t> checksums_;  // [block], with `verify`
  uint64_t writes_ = 0;
  std::unique_ptr<IoEngine> engine_;  // destroyed first: it may still use all of the above
};

}  // namespace spillway
