// The loops over parameters behind OptimizerTiles: plain pointers in, no allocation, no errors.
// Vectorised for each SIMD target (simd_dispatch.h), same bits on all.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/numeric/parameter_update.h"

namespace spillway {

// Adafactor: what the gradient of neighbouring parameters is multiplied by, those of their row and
// their column in a matrix (engine/numeric/factored_moments.h).
struct PieceFactors {
  const float* rows = nullptr;
  const float* columns = nullptr;
  uint64_t row_length = 0;
  uint64_t first = 0;  // the position of the first of them in the matrix, row-major
};

// Parameters [begin, end) of a tile, and which constants are theirs. Where there are two of these,
// number 1 are those of parameters that decay.
struct UpdatePiece {
  uint64_t begin = 0;
  uint64_t end = 0;
  int constants = 0;
  PieceFactors factors = {};
};

// Updates the ascending pieces of a tile in place. Returns the largest of what UpdateParameter
// does: at least FirstUnstorableMagnitude(kind.weights) means that one must not stand. A block of
// moments in codes that no piece touches stays as it is. REQUIRES, where moments are codes: the
// planes begin with a block, and `count` is whole blocks.
uint32_t UpdateParameters(const UpdateKind& kind, const UpdatePlanes& planes,
                          const std::vector<UpdatePiece>& pieces, const UpdateConstants* constants);

// Sums of squares, over 16 lanes.
struct UpdateSquares {
  double weights = 0;  // of masters, before the update; Adafactor: 0 where planes have no weights
  double directions = 0;  // along which parameters are to move
};

// Of a piece of a tile; nothing is changed. REQUIRES: the rule is LAMB's or Adafactor's; else as
// UpdateParameters.
UpdateSquares MeasureParameters(const UpdateKind& kind, const UpdatePlanes& planes,
                                const UpdatePiece& piece, const UpdateConstants& constants);

// Position of the first unstorable master, and its value; count when there is none.
uint64_t FindUnstorable(WeightFormat format, const UpdatePlanes& planes, float* master);

}  // namespace spillway
