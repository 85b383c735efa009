// The key-value caches of a model's units for texts that are being continued (Unit::ForwardNext).
// They are in device memory, in host memory or in files; a unit gets a tensor with the same bytes
// for any tier.
//
// A block is the cache of one unit for one text. Outside of device memory a block is loaded before
// its unit computes, and the unit's additions are stored afterwards; host memory that the unit can
// access (on the CPU) is not copied.
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/numeric/dtype.h"
#include "engine/torch/compute_place.h"
#include "io/file.h"
#include "io/io_engine.h"
#include "swap/device/arena.h"
#include "swap/device/memory_budget.h"
#include "swap/plan/swap_plan.h"

namespace spillway {

struct KeptShape {
  std::vector<int64_t> per_position;  // [unit] elements; 0: the unit has no cache
  int64_t positions = 0;              // largest number per text
  int rows = 1;                       // number of texts
  DType dtype = DType::kFloat32;

  uint64_t PositionBytes(int unit) const { return per_position[unit] * DTypeBytes(dtype); }
  uint64_t BlockBytes(int unit) const { return positions * PositionBytes(unit); }
  // Size of all blocks.
  uint64_t bytes() const;

  // Memory of the two budgets that the blocks need in `tier`.
  struct Memory {
    uint64_t device_bytes = 0, host_bytes = 0;
  };
  Memory MemoryIn(Tier tier, bool separate_device) const;
};

// The name of the caches' file in a directory.
inline constexpr char kKeptName[] = "kept";

// Compute thread.
class KeptPositions {
 public:
  // Device memory counts against LibTorch's budget, host memory against `host_budget`, which
  // outlives the object. kNvme: `directories` get a file each with reserved space, whose name may
  // be removed after this call. kResourceExhausted if there is too little.
  static absl::StatusOr<std::unique_ptr<KeptPositions>> Create(
      const KeptShape& shape, Tier tier, const ComputePlace& place, MemoryBudget* host_budget,
      const std::vector<std::string>& directories, const IoEngineOptions& io);
  ~KeptPositions();

  // The block [positions, per_position], on the place: its first `seen` positions are those of
  // Store, the rest is undefined. An undefined tensor for a unit without cache. Valid until the
  // next Load. kDataLoss if the bytes are not those that were stored.
  absl::StatusOr<torch::Tensor> Load(int row, int unit, int64_t seen);

  // Call after writing positions [first, first + count) of the last Load's block; earlier positions
  // are unchanged.
  absl::Status Store(int64_t first, int64_t count);

  // Copies positions [first, end) of all units' blocks from one text to another, whose earlier
  // positions are equal. Invalidates the last Load's block.
  absl::Status Copy(int from, int to, int64_t first, int64_t end);

  // A hint that begins to read the block of a soon Load, if it is in a file.
  void Prefetch(int row, int unit, int64_t seen);

  Tier tier() const { return tier_; }
  uint64_t bytes() const { return shape_.bytes(); }
  // Transfers of the files so far.
  IoStats io_stats() const;

 private:
  // A host buffer for blocks of files.
  struct Slot {
    char* data = nullptr;
    int row = -1, unit = -1;
    int64_t seen = -1;  // requested positions; -1: contains a write, and is not readable
    IoRequest request;
    bool in_flight = false;
    absl::Status status;
  };

  KeptPositions(KeptShape shape, Tier tier, const ComputePlace& place)
      : shape_(std::move(shape)), tier_(tier), place_(place) {}
  absl::Status OpenFiles(const std::vector<std::string>& directories, const IoEngineOptions& io);
  uint64_t BlockNumber(int row, int unit) const;
  // Offset of a block in the arena or in its file.
  uint64_t OffsetOf(int row, int unit) const;
  File& FileOf(int row, int unit) const;
  void Begin(Slot& slot, IoOp op, uint64_t first_byte, uint64_t end_byte);
  void BeginRead(Slot& slot, int row, int unit, int64_t seen);
  absl::Status Finish(Slot& slot);
  absl::Status Verify(const Slot& slot);
  torch::Tensor ViewOf(int unit, char* data) const;

  const KeptShape shape_;
  const Tier tier_;
  const ComputePlace place_;
  std::vector<uint64_t> first_blocks_;              // [unit] number of its first block
  std::vector<std::vector<torch::Tensor>> blocks_;  // [row][unit], in device memory
  torch::Tensor staged_;                            // one block, if the device has its own memory
  std::unique_ptr<Arena> arena_;                    // host memory: the blocks, or the slots
  uint64_t* checksums_ = nullptr;  // [block] of its content in a file; stored in the arena
  std::vector<std::unique_ptr<File>> files_;
  std::array<Slot, 2> slots_;
  std::unique_ptr<IoEngine> engine_;  // destroyed first; waits for what is in flight
  // Arguments of the last Load.
  int row_ = 0, unit_ = 0;
  torch::Tensor given_;
  int slot_ = 0;
};

}  // namespace spillway
