// Updates tiles of an optimizer's state.
//
// Every parameter's update is one fixed sequence of correctly rounded fp32 operations,
// no fma and no flush-to-zero, in the order of torch.optim's single-tensor paths
// (torch 2.11, optim/adam.py and sgd.py). Scalars are computed in double and rounded
// to fp32 once. So the bits depend on neither SIMD target, nor tiling, nor thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/numeric/dtype.h"
#include "engine/numeric/factored_moments.h"
#include "engine/numeric/optimizer_spec.h"
#include "engine/numeric/parameter_update.h"
#include "engine/numeric/tensor_ratios.h"
#include "engine/numeric/update_kind.h"
#include "engine/numeric/update_loops.h"
#include "swap/device/tile_compute.h"
#include "swap/plan/state_layout.h"

namespace spillway {

// The key of stochastic rounding of second moments and weights, so that the result does not depend
// on where a parameter is updated.
struct UpdateRounding {
  uint64_t seed = 0;
  // By unit: the position in the whole unit of the first parameter in a rank's shard. Empty: 0.
  std::vector<uint64_t> first_parameters = {};
};

// The update of every tile of a model. Immutable except for measurements: any number of threads.
class OptimizerTiles : public TileCompute {
 public:
  // `decayed[unit]` are the ranges with weight decay, sorted and disjoint. REQUIRES: the spec is
  // valid; layout.planes() == StatePlanes(spec, dtype), the gradient has the dtype's bytes; one
  // entry of `decayed` a unit.
  OptimizerTiles(const OptimizerSpec& spec, DType dtype, const StateLayout& layout,
                 std::vector<std::vector<ParameterRange>> decayed, UpdateRounding rounding = {});

  // Sets the objects that measure before updates; `moments` if they are factored. Call first.
  void SetMeasured(std::unique_ptr<TensorRatios> ratios, std::unique_ptr<FactoredMoments> moments) {
    ratios_ = std::move(ratios);
    moments_ = std::move(moments);
  }
  // Sets them with every unit as a single tensor of one row.
  void MeasureWholeUnits();
  // Null without measurements.
  TensorRatios* tensor_ratios() const { return ratios_.get(); }
  FactoredMoments* factored_moments() const { return moments_.get(); }

  // The sum of squares is that of the rounded values, in double over 16 virtual lanes
  // (lane = parameter index mod 16), the lanes added in order 0..15 at the end.
  GradientPartial Round(int unit, int tile, uint64_t parameters, const float* sums,
                        void* gradient) override;
  GradientPartial Learn(int unit, int tile, uint64_t parameters, const void* gradient) override;

  // `scalars.step` counts the applied updates, from 1: a skipped step does not advance the bias
  // correction. The rate is scalars.learning_rate, not the spec's. Padding stays zero. kOutOfRange
  // if a new master is not finite, or its weight would round to infinity; the tile is then unusable
  // and the run must end.
  absl::Status Update(const TileView& tile, const UpdateScalars& scalars) override;

  absl::Status CheckUpdated(const TileView& tile, const UpdateScalars& scalars,
                            uint32_t largest_magnitude) override;

  // REQUIRES: MeasuresFirst.
  void Measure(const TileView& tile, const UpdateScalars& scalars, int measure) override;

 protected:
  // The tile's pieces without padding, in order.
  std::vector<UpdatePiece> PiecesOf(const TileView& tile) const;
  // The planes of its first `count` parameters.
  UpdatePlanes PlanesOf(const TileView& tile, uint64_t count) const;
  UpdateKind kind() const;
  const OptimizerSpec& spec() const { return spec_; }
  // Scalars are computed in double and rounded once.
  UpdateConstants ConstantsOf(const UpdateScalars& scalars, bool decays, double ratio = 1) const;
  DType dtype() const { return dtype_; }

 private:
  bool Decays(int unit, uint64_t parameter) const;
  UpdateConstants ConstantsOf(const UpdateScalars& scalars, int unit,
                              const MeasuredPiece& piece) const;
  // The update of a tile's piece with the constants of that number.
  UpdatePiece UpdateOf(const TileView& tile, const MeasuredPiece& piece, int constants) const;

  OptimizerSpec spec_;
  DType dtype_;
  StateLayout layout_;
  std::vector<std::vector<ParameterRange>> decayed_;
  UpdateRounding rounding_;
  std::shared_ptr<TensorRatios> ratios_;  // shared by copies
  std::shared_ptr<FactoredMoments> moments_;
};

}  // namespace spillway
