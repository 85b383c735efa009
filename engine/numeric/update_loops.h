// The loops over parameters behind OptimizerTiles: plain pointers, no allocation, no errors.
// Vectorised for each SIMD target (simd_dispatch.h), with the same bits on all.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/numeric/parameter_update.h"

namespace spillway {

// Adafactor: the factors of neighbouring gradients, one of their row and one of their column
// (engine/numeric/factored_moments.h).
struct PieceFactors {
  const float* rows = nullptr;
  const float* columns = nullptr;
  uint64_t row_length = 0;
  uint64_t first = 0;  // the row-major position of the first one in the matrix
};

// Parameters [begin, end) of a tile, and the index of their constants. If there are two sets of
// constants, number 1 has weight decay.
struct UpdatePiece {
  uint64_t begin = 0;
  uint64_t end = 0;
  int constants = 0;
  PieceFactors factors = {};
};

// Updates the ascending pieces of a tile in place. Returns the maximum of UpdateParameter's
// results: one that reaches FirstUnstorableMagnitude(kind.weights) means an unstorable master. A
// block of coded moments that no piece overlaps stays unchanged. REQUIRES for coded moments: the
// planes start at a block, and `count` is whole blocks.
uint32_t UpdateParameters(const UpdateKind& kind, const UpdatePlanes& planes,
                          const std::vector<UpdatePiece>& pieces, const UpdateConstants* constants);

// Sums of squares, over 16 lanes.
struct UpdateSquares {
  double weights = 0;     // of masters, before the update; Adafactor: 0 if planes have no weights
  double directions = 0;  // of update directions
};

// Measures a piece of a tile without changing it. REQUIRES: the rule is LAMB's or Adafactor's;
// otherwise as for UpdateParameters.
UpdateSquares MeasureParameters(const UpdateKind& kind, const UpdatePlanes& planes,
                                const UpdatePiece& piece, const UpdateConstants& constants);

// Position of the first unstorable master, and its value; `count` if there is none.
uint64_t FindUnstorable(WeightFormat format, const UpdatePlanes& planes, float* master);

}  // namespace spillway
