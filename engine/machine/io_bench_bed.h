// What every measurement of `bench io` lies on: files, a buffer and an engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/machine/io_bench.h"
#include "io/file.h"
#include "io/io_engine.h"

namespace spillway {

// A request for one block, with a place in the buffer of its own.
struct BenchSlot : IoRequest {
  uint64_t block = 0;
  int64_t submitted_ns = 0;
};

// One thread. Destroy it with nothing pending.
class IoBenchBed {
 public:
  // Makes the files and writes them once. `slots`: requests at a time.
  static absl::StatusOr<std::unique_ptr<IoBenchBed>> Create(const IoBenchOptions& options,
                                                            uint32_t slots);
  ~IoBenchBed();

  IoEngine& engine() { return *engine_; }
  std::vector<BenchSlot>& slots() { return slots_; }
  uint64_t num_blocks() const { return num_blocks_; }
  bool direct() const;
  bool stopped() const { return options_.stopped && options_.stopped(); }

  // Points the request at a block and submits it; with `verify`, what is to be written
  // is new and its checksum is kept.
  void Submit(BenchSlot& slot, IoOp op, IoClass io_class, uint64_t block);

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
  std::vector<uint64_t> checksums_;  // [block], with `verify`
  uint64_t writes_ = 0;
  std::unique_ptr<IoEngine> engine_;  // ends first: it may still use all of the above
};

}  // namespace spillway
