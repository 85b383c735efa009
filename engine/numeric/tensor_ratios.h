// Factors of tensors' learning rates, from the norms of their weights and update directions: LAMB's
// trust ratio, Adafactor's clipping. A tensor is spread over tiles and the shards of ranks. Its
// sums are independent of the partition: squares are added in blocks of a unit's parameters, blocks
// in portions (engine/ranks/shard_grid.h), and portions in order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "engine/numeric/optimizer_spec.h"
#include "engine/numeric/update_loops.h"
#include "io/base/mutex.h"
#include "swap/plan/state_layout.h"

namespace spillway {

// Parameters [begin, end) of a unit or a shard, by position in its flat range.
struct ParameterRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  friend bool operator==(const ParameterRange&, const ParameterRange&) = default;
};

// The part of a tensor that lies in a shard, and in one block.
struct MeasuredPiece {
  uint64_t begin = 0;  // position in the shard
  uint64_t end = 0;
  int tensor = 0;  // index in the unit
};

// Sums of squares over a tensor's parameters, and their number.
struct TensorSquares {
  double weights = 0;
  double directions = 0;
  uint64_t parameters = 0;
};

// An optimizer's ratio for a tensor; 1 for NaN, which the update then reports.
using TensorRatio = std::function<double(const TensorSquares&)>;
// REQUIRES: MeasuresFirst.
TensorRatio TensorRatioOf(const OptimizerSpec& spec);

class TensorRatios {
 public:
  // Parameters that are summed together first.
  static constexpr uint64_t kBlock = kParameterAlignment;

  struct Shard {
    // The shard's part of each of the unit's tensors, in order (none: begin == end).
    std::vector<ParameterRange> tensors;
    std::vector<uint64_t> parameters;  // of each tensor, in all shards
    // Size of each of the shard's `portions`, whole blocks; 0: one portion.
    uint64_t portion_parameters = 0;
    int tiles = 0;
  };
  // One entry per unit. Ratios are 1 until Use.
  TensorRatios(std::vector<Shard> units, int portions, TensorRatio ratio);

  // The shard's parameters [begin, end), cut at the ends of tensors and, with `of_blocks`, of
  // blocks.
  std::vector<MeasuredPiece> PiecesOf(int unit, uint64_t begin, uint64_t end, bool of_blocks) const;

  // Adds the measurements of a tile's pieces, in their order. Any thread, each tile once a step.
  void Put(int unit, int tile, std::vector<MeasuredPiece> pieces,
           std::vector<UpdateSquares> squares);

  // The sums of weights and directions for every portion of the shard, unit and tensor, in that
  // order. Resets them for the next step. REQUIRES: every tile was put.
  std::vector<double> TakeSums();
  // Computes the ratios from `sums`: TakeSums of all shards, concatenated.
  void Use(absl::Span<const double> sums);

  double ratio(int unit, int tensor) const { return ratios_[first_[unit] + tensor]; }

 private:
  struct Tile {
    std::vector<MeasuredPiece> pieces;
    std::vector<UpdateSquares> squares;
  };
  void Add(int unit, const Tile& tile) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<Shard> units_;
  const int portions_;
  const TensorRatio ratio_;
  std::vector<int> first_;  // [unit] number of its first tensor
  int tensors_ = 0;
  std::vector<uint64_t> parameters_;  // [tensor]
  std::vector<double> ratios_;        // [tensor]
  Mutex mutex_;
  // [unit][tile] Tiles that arrived before an earlier one.
  std::vector<std::vector<std::optional<Tile>>> tiles_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> next_ ABSL_GUARDED_BY(mutex_);     // [unit] the first tile that has not arrived
  std::vector<double> sums_ ABSL_GUARDED_BY(mutex_);  // [portion][tensor][2]
};

}  // namespace spillway
