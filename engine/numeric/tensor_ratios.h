// What a tensor's learning rate is multiplied by, which follows from the norms of its weights and
// of the direction along which they are to move: LAMB's trust ratio, Adafactor's clipping. A tensor
// lies in many tiles, and in the shards of several ranks; its sums are the same however it is cut,
// since squares are added in blocks of a unit's parameters, blocks in portions
// (engine/ranks/shard_grid.h), and portions in their order.
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

// Parameters [begin, end) of a unit, by position in its flat range, or a shard's.
struct ParameterRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  friend bool operator==(const ParameterRange&, const ParameterRange&) = default;
};

// What of a tensor is in a shard, and in one block.
struct MeasuredPiece {
  uint64_t begin = 0;  // by position in the shard
  uint64_t end = 0;
  int tensor = 0;  // of the unit
};

// Of a tensor: sums of squares, and how many parameters they are of.
struct TensorSquares {
  double weights = 0;
  double directions = 0;
  uint64_t parameters = 0;
};

// An optimizer's ratio. Of what is no number: 1, and the update says it.
using TensorRatio = std::function<double(const TensorSquares&)>;
// REQUIRES: MeasuresFirst.
TensorRatio TensorRatioOf(const OptimizerSpec& spec);

class TensorRatios {
 public:
  static constexpr uint64_t kBlock = kParameterAlignment;  // parameters that are added alone

  struct Shard {
    // The unit's tensors in order, each by what the shard has of it (nothing: begin == end).
    std::vector<ParameterRange> tensors;
    std::vector<uint64_t> parameters;  // of each of them, in all shards
    uint64_t portion_parameters = 0;   // of which the shard has `portions`; whole blocks. 0: one
    int tiles = 0;
  };
  // Of every unit. The ratios are 1 until Use.
  TensorRatios(std::vector<Shard> units, int portions, TensorRatio ratio);

  // The shard's parameters [begin, end), cut where a tensor or a block ends, with `of_blocks`; else
  // where a tensor does.
  std::vector<MeasuredPiece> PiecesOf(int unit, uint64_t begin, uint64_t end, bool of_blocks) const;

  // What was measured of a tile's pieces, in their order. Any thread, each tile once a step.
  void Put(int unit, int tile, std::vector<MeasuredPiece> pieces,
           std::vector<UpdateSquares> squares);

  // Of all portions of the shard in order, every unit's every tensor: weights, directions.
  // REQUIRES: every tile was put. Then a step begins anew.
  std::vector<double> TakeSums();
  // `sums`: of the portions of all shards in order, each as of TakeSums.
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
  // [unit][tile] Those that came before an earlier one.
  std::vector<std::vector<std::optional<Tile>>> tiles_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> next_ ABSL_GUARDED_BY(mutex_);     // [unit] the first that has not come
  std::vector<double> sums_ ABSL_GUARDED_BY(mutex_);  // [portion][tensor][2]
};

}  // namespace spillway
