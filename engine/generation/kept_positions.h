// What the units of a model keep of the positions of texts that are being continued
// (Unit::ForwardNext): the key-value caches. They live in the device's memory, in the host's or in
// files; a unit gets a tensor with the same bytes in it wherever they were.
//
// A block is what one unit keeps of one text. Outside of device memory a block is brought before
// its unit computes, and what the unit adds is taken back: of host memory that the unit reaches
// itself (the CPU's) nothing is copied.
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
  std::vector<int64_t> per_position;  // [unit] elements; 0: the unit keeps nothing
  int64_t positions = 0;              // of each text, at most
  int rows = 1;                       // texts
  DType dtype = DType::kFloat32;

  uint64_t PositionBytes(int unit) const { return per_position[unit] * DTypeBytes(dtype); }
  uint64_t BlockBytes(int unit) const { return positions * PositionBytes(unit); }
  // Of all blocks.
  uint64_t bytes() const;

  // What the blocks take of the two budgets when they live in `tier`.
  struct Memory {
    uint64_t device_bytes = 0, host_bytes = 0;
  };
  Memory MemoryIn(Tier tier, bool separate_device) const;
};

// The name of their file in a directory.
inline constexpr char kKeptName[] = "kept";

// Compute thread.
class KeptPositions {
 public:
  // Memory of the device counts against LibTorch's budget, the host's against `host_budget`, which
  // outlives it. kNvme: `directories` get a file each, which may lose its name as soon as this
  // returns; its space is reserved. kResourceExhausted where there is too little.
  static absl::StatusOr<std::unique_ptr<KeptPositions>> Create(
      const KeptShape& shape, Tier tier, const ComputePlace& place, MemoryBudget* host_budget,
      const std::vector<std::string>& directories, const IoEngineOptions& io);
  ~KeptPositions();

  // The block [positions, per_position], on the place: its first `seen` positions are as Store left
  // them, the rest is undefined. An undefined tensor of a unit that keeps nothing. Good until the
  // next Load. kDataLoss where the bytes are not those that were stored.
  absl::StatusOr<torch::Tensor> Load(int row, int unit, int64_t seen);

  // Positions [first, first + count) of what the last Load gave have been written, and those before
  // are as they were.
  absl::Status Store(int64_t first, int64_t count);

  // Positions [first, end) of all that one text's units keep become another's, whose are the same
  // before. Ends what the last Load gave.
  absl::Status Copy(int from, int to, int64_t first, int64_t end);

  // A Load that comes next, or soon: begins to read what only a file has. A hint.
  void Prefetch(int row, int unit, int64_t seen);

  Tier tier() const { return tier_; }
  uint64_t bytes() const { return shape_.bytes(); }
  // Through the files so far.
  IoStats io_stats() const;

 private:
  // A buffer of host memory through which blocks of files pass.
  struct Slot {
    char* data = nullptr;
    int row = -1, unit = -1;
    int64_t seen = -1;  // positions that were asked for; -1: written, and not for reading
    IoRequest request;
    bool in_flight = false;
    absl::Status status;
  };

  KeptPositions(KeptShape shape, Tier tier, const ComputePlace& place)
      : shape_(std::move(shape)), tier_(tier), place_(place) {}
  absl::Status OpenFiles(const std::vector<std::string>& directories, const IoEngineOptions& io);
  uint64_t BlockNumber(int row, int unit) const;
  // Where a block lies in the arena or in its file.
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
  std::vector<uint64_t> first_blocks_;              // [unit] the number of its first one
  std::vector<std::vector<torch::Tensor>> blocks_;  // [row][unit], in device memory
  torch::Tensor staged_;           // one block, where the device has its own memory
  std::unique_ptr<Arena> arena_;   // host memory: the blocks, or the slots
  uint64_t* checksums_ = nullptr;  // [block], of what it holds in a file; in the arena
  std::vector<std::unique_ptr<File>> files_;
  std::array<Slot, 2> slots_;
  std::unique_ptr<IoEngine> engine_;  // goes first, and waits for what is in flight
  // The last Load's.
  int row_ = 0, unit_ = 0;
  torch::Tensor given_;
  int slot_ = 0;
};

}  // namespace spillway
