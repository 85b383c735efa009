// What every measurement of `bench io` lies on: files, a buffer and an engine.
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
  // Blocks are dealt to them in turn, a file in each.
  std::vector<std::string> directories;
  IoBenchOp op = IoBenchOp::kRead;
  // Of the files together.
  uint64_t size_bytes = uint64_t{4} << 30;
  // Of each measurement; 0: once over the files (kDemand: 3 seconds).
  double seconds = 0;
  // Checksums are computed of what is written and checked for what is read.
  bool verify = false;
  // Looked at before each block is started, also of the first writing; may be empty. True ends
  // it with kCancelled.
  std::function<bool()> stopped = {};
  // Registers the files and the one buffer: a quarter more blocks than `depth`.
  IoEngineOptions io;
};

class IoBenchBed;

// A request for one block, with a place in the buffer of its own. Whoever submits it sets
// `finished` and `context`; the bed takes `done` for itself.
struct BenchSlot : IoRequest {
  void (*finished)(BenchSlot& slot, const absl::Status& status) = nullptr;
  uint64_t block = 0;
  int64_t submitted_ns = 0;
  IoBenchBed* bed = nullptr;
};

// One thread. Destroy it with nothing pending.
class IoBenchBed {
 public:
  // Makes the files and writes them once. `slots`: requests at a time, fewer where there are fewer
  // blocks. kInvalidArgument, with the least size, where those are fewer than the depth, or, with
  // kDemand, than that and one.
  static absl::StatusOr<std::unique_ptr<IoBenchBed>> Create(const IoBenchOptions& options,
                                                            uint32_t slots);
  ~IoBenchBed();

  IoEngine& engine() { return *engine_; }
  std::vector<BenchSlot>& slots() { return slots_; }
  uint64_t num_blocks() const { return num_blocks_; }
  bool direct() const;
  bool stopped() const { return options_.stopped && options_.stopped(); }

  // Points the request at the first block from `wanted` on (modulo num_blocks) that no other
  // request is at, and submits it: two at once on one block have no order, and what is read
  // would be neither's. With `verify`, what is to be written is new and its checksum is kept.
  // Returns the block. There are as many blocks as slots, so one is free.
  uint64_t Submit(BenchSlot& slot, IoOp op, IoClass io_class, uint64_t wanted);

  // With `verify`: kDataLoss when the slot does not hold what its block was last written with.
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
  std::unique_ptr<IoEngine> engine_;  // ends first: it may still use all of the above
};

}  // namespace spillway
