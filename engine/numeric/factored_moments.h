// Adafactor's second moments (Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear
// Memory Cost", 2018): of a matrix one number a row and one a column, instead of one a parameter.
// So they are small enough to be kept in memory, whole on every rank, and in a commit's small
// state.
//
// A row's squares lie in several tiles and in the shards of several ranks, and a column's in all.
// Their sums are exact, and so the same in whatever order and however cut they are added: a square
// is split into two parts, each a multiple of a step so large that no sum of them is rounded. (What
// is below both is dropped from every square alike: less than 2^-75 of all squares' sum.)
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

// A tensor as a matrix: [d0, d1, ...] has d0 rows. One of a single dimension is a row, whose
// columns' moments are then those of its parameters.
struct FactoredTensor {
  uint64_t begin = 0;  // by position in the whole unit's flat range
  uint64_t rows = 1;
  uint64_t columns = 1;
};

class FactoredMoments {
 public:
  // By unit: its tensors, in order (none where nothing is trained), and which of the whole unit's
  // parameters the first of a rank's shard is.
  FactoredMoments(std::vector<std::vector<FactoredTensor>> units,
                  std::vector<uint64_t> first_parameters, const OptimizerSpec& spec);

  // Of memory, with what a commit takes for a while, and with `copies` a copy of one.
  static uint64_t BytesOf(const std::vector<std::vector<FactoredTensor>>& units, bool copies);

  // A step begins, whose gradients' squares (before they are scaled, of all ranks) have this sum.
  void Begin(double sum_of_squares);
  // The squares of what `piece` is of: `gradient` is its first parameter's. Any thread.
  void AddSquares(int unit, const MeasuredPiece& piece, DType dtype, const void* gradient);
  // Those of all tiles of the shard, to which those of other shards are to be added.
  absl::Span<double> sums() { return absl::MakeSpan(sums_); }
  // The moments take in the squares of all shards. REQUIRES: scalars.skip is false.
  void Take(const UpdateScalars& scalars);

  // What the gradient of a piece is multiplied by.
  PieceFactors FactorsOf(int unit, const MeasuredPiece& piece) const;

  // All of them: of every tensor its rows', then its columns'.
  const std::vector<float>& values() const { return values_; }
  // kDataLoss where these aren't as many. Before the first step.
  absl::Status Restore(std::vector<float> values);

 private:
  struct Place {
    FactoredTensor tensor;
    uint64_t first = 0;  // of its values
  };
  const Place& PlaceOf(int unit, int tensor) const { return units_[unit][tensor]; }
  // Where in the matrix a piece begins, row-major.
  uint64_t PositionOf(int unit, const MeasuredPiece& piece) const;

  std::vector<std::vector<Place>> units_;
  const std::vector<uint64_t> first_parameters_;
  const double decay_rate_, eps_;
  int log2_terms_ = 0;         // of any sum
  SquareParts parts_;          // of this step
  std::vector<float> values_;  // moments
  std::vector<float> roots_;   // of what divides, inverse; of rows, by their mean
  Mutex mutex_;
  std::vector<double> sums_;  // [values][2]. Guarded by mutex_ while tiles are looked at
};

}  // namespace spillway
