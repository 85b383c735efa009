// Adafactor's second moments (Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear
// Memory Cost", 2018): one number per row and column of a matrix instead of one per parameter. They
// are small enough to be kept in memory, whole on every rank, and in a commit's small state.
//
// The squares of a row or column are spread over tiles and the shards of ranks. Their sums are
// exact, and so independent of order and partition: a square is split into two parts, each a
// multiple of a step so large that no sum of them is rounded. (The remainder below both is dropped
// from every square alike: less than 2^-75 of the sum of all squares.)
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/numeric/gradient_loops.h"
#include "engine/numeric/optimizer_spec.h"
#include "engine/numeric/tensor_ratios.h"
#include "engine/numeric/update_loops.h"
#include "io/base/mutex.h"
#include "swap/device/tile_compute.h"

namespace spillway {

// A tensor as a matrix: [d0, d1, ...] has d0 rows. A tensor of one dimension is a single row, so
// that the columns' moments are those of its parameters.
struct FactoredTensor {
  uint64_t begin = 0;  // position in the whole unit's flat range
  uint64_t rows = 1;
  uint64_t columns = 1;
};

class FactoredMoments {
 public:
  // By unit: its tensors in order (none without trained parameters), and the position in the whole
  // unit of the first parameter in a rank's shard.
  FactoredMoments(std::vector<std::vector<FactoredTensor>> units,
                  std::vector<uint64_t> first_parameters, const OptimizerSpec& spec);

  // Bytes of memory, including a commit's temporary use, and a copy with `copies`.
  static uint64_t BytesOf(const std::vector<std::vector<FactoredTensor>>& units, bool copies);

  // Begins a step; `sum_of_squares` is over the unscaled gradients of all ranks.
  void Begin(double sum_of_squares);
  // Adds the squares of a piece's gradients; `gradient` points to its first one. Any thread.
  void AddSquares(int unit, const MeasuredPiece& piece, DType dtype, const void* gradient);
  // The sums over all tiles of the shard; those of other shards are to be added to them.
  absl::Span<double> sums() { return absl::MakeSpan(sums_); }
  // Updates the moments with the squares of all shards. REQUIRES: scalars.skip is false.
  void Take(const UpdateScalars& scalars);

  // The factors of a piece's gradients.
  PieceFactors FactorsOf(int unit, const MeasuredPiece& piece) const;

  // All moments: for every tensor its rows', then its columns'.
  const std::vector<float>& values() const { return values_; }
  // kDataLoss if the number of values differs. Call before the first step.
  absl::Status Restore(std::vector<float> values);

 private:
  struct Place {
    FactoredTensor tensor;
    uint64_t first = 0;  // index of its first value
  };
  const Place& PlaceOf(int unit, int tensor) const { return units_[unit][tensor]; }
  // Row-major position of a piece's first element in its matrix.
  uint64_t PositionOf(int unit, const MeasuredPiece& piece) const;

  std::vector<std::vector<Place>> units_;
  const std::vector<uint64_t> first_parameters_;
  const double decay_rate_, eps_;
  int log2_terms_ = 0;         // of the largest sum
  SquareParts parts_;          // of the current step
  std::vector<float> values_;  // moments
  std::vector<float> roots_;   // inverse square roots; rows' are relative to their mean
  Mutex mutex_;
  std::vector<double> sums_;  // [values][2]; guarded by mutex_ while tiles are measured
};

}  // namespace spillway
