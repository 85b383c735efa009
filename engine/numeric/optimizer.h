// The optimizers: what state they keep, and how a tile of it is updated.
//
// Every parameter's update is one fixed sequence of correctly rounded fp32 operations,
// no fma and no flush-to-zero, in the order of torch.optim's single-tensor paths
// (torch 2.11, optim/adam.py and sgd.py). Scalars are computed in double and rounded
// to fp32 once. So the bits depend on neither SIMD target, nor tiling, nor thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/numeric/dtype.h"
#include "engine/numeric/parameter_update.h"
#include "engine/numeric/update_kind.h"
#include "engine/numeric/update_loops.h"
#include "swap/device/tile_compute.h"
#include "swap/plan/state_layout.h"

namespace spillway {

struct OptimizerSpec {
  enum class Kind : uint8_t {
    kAdamW,  // decoupled weight decay (Loshchilov and Hutter, 2019)
    kAdam,   // weight decay joins the gradient (L2)
    kSgd,    // weight decay joins the gradient (L2)
    kLion,   // decoupled weight decay (Chen et al., 2023)
  };
  // Which parameters weight decay touches.
  enum class Decay : uint8_t {
    kAll,       // as torch.optim does
    kMatrices,  // only tensors of two or more dimensions: no biases, no norms
  };

  Kind kind = Kind::kAdamW;
  MomentFormat moments = MomentFormat::kFloat32;
  // False: a bf16 run keeps no masters (WeightFormat::kBFloat16Alone).
  bool masters = true;
  double learning_rate = 5e-5;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  // Adam, AdamW: false leaves moments as they are, which begin at zero, as DeepSpeed's
  // bias_correction does.
  bool bias_correction = true;
  double weight_decay = 0.01;
  double momentum = 0;   // SGD
  double dampening = 0;  // SGD
  bool nesterov = false;
  Decay decay = Decay::kAll;

  friend bool operator==(const OptimizerSpec&, const OptimizerSpec&) = default;
};

// A second moment that is 0, as of a token that no sample has, is divided by eps alone: in fp32
// that must not be 0.
inline constexpr double kLeastEps = 1e-37;
// Far beyond what any run decays by, and below what makes weights infinite in a step.
inline constexpr double kMostWeightDecay = 1e6;

// "adamw", "adam", "sgd", "lion".
std::string OptimizerName(OptimizerSpec::Kind kind);

// "fp32", "bf16", "8bit", "fp8".
std::string MomentFormatName(MomentFormat moments);

// kInvalidArgument, naming the field and its limits, when a number makes no sense.
absl::Status ValidateOptimizer(const OptimizerSpec& spec);

// REQUIRES, without masters: the dtype is bf16, or CheckMasters would refuse it.
WeightFormat WeightFormatOf(const OptimizerSpec& spec, DType dtype);

// kInvalidArgument for a run without masters in another dtype than bf16.
absl::Status CheckMasters(const OptimizerSpec& spec, DType dtype);

// The checkpointed planes of a run, weight first:
//   bf16: weight 2, residual 2    fp16: weight 2, master 4    fp32: weight 4
// (bf16 without masters: weight 2) followed by Adam's exp_avg 4 and exp_avg_sq 4, Lion's exp_avg 4,
// or SGD's momentum 4 where it has one. Moments in bf16 take 2 each; those of 8 bits 1, those of
// fp8 1 and exp_avg_sq 2, and behind each of them 4 a block of kMomentBlock parameters.
std::vector<PlaneSpec> StatePlanes(const OptimizerSpec& spec, DType dtype);

// Parameters [begin, end) of a unit, by position in its flat range.
struct ParameterRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  friend bool operator==(const ParameterRange&, const ParameterRange&) = default;
};

// What second moments and weights are rounded by where they are at random, so that it is the same
// wherever a parameter is updated.
struct UpdateRounding {
  uint64_t seed = 0;
  // By unit: which of the whole unit's parameters its first is, of a rank's shard. Empty: 0.
  std::vector<uint64_t> first_parameters = {};
};

// The update of every tile of a model. Immutable: any number of threads.
class OptimizerTiles : public TileCompute {
 public:
  // `decayed[unit]` are the ranges that weight decay touches, sorted and disjoint.
  // REQUIRES: the spec is valid; layout.planes() == StatePlanes(spec, dtype), the
  // gradient has the dtype's bytes; one entry of `decayed` a unit.
  OptimizerTiles(const OptimizerSpec& spec, DType dtype, const StateLayout& layout,
                 std::vector<std::vector<ParameterRange>> decayed, UpdateRounding rounding = {});

  // The sum of squares is that of the rounded values, in double over 16 virtual lanes
  // (lane = parameter index mod 16), the lanes added in order 0..15 at the end.
  GradientPartial Round(int unit, int tile, uint64_t parameters, const float* sums,
                        void* gradient) override;
  GradientPartial Learn(int unit, int tile, uint64_t parameters, const void* gradient) override;

  // `scalars.step` counts the updates that were applied, from 1: a skipped step does
  // not advance the bias correction. scalars.learning_rate is the one that counts, not
  // the spec's. Padding is left alone (zero).
  // kOutOfRange when a new master is not finite, or its weight would round to infinity;
  // the tile is then unusable and the run must end.
  absl::Status Update(const TileView& tile, const UpdateScalars& scalars) override;

  absl::Status CheckUpdated(const TileView& tile, const UpdateScalars& scalars,
                            uint32_t largest_magnitude) override;

 protected:
  // The tile without its padding, in order.
  std::vector<UpdatePiece> PiecesOf(const TileView& tile) const;
  // Of its first `count` parameters.
  UpdatePlanes PlanesOf(const TileView& tile, uint64_t count) const;
  UpdateKind kind() const;
  // Scalars computed in double, rounded once.
  UpdateConstants ConstantsOf(const UpdateScalars& scalars, bool decays) const;
  DType dtype() const { return dtype_; }

 private:
  OptimizerSpec spec_;
  DType dtype_;
  StateLayout layout_;
  std::vector<std::vector<ParameterRange>> decayed_;
  UpdateRounding rounding_;
};

}  // namespace spillway
