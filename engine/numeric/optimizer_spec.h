// The optimizers: what they are told. (What state they keep: optimizer_state.h.)
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/numeric/number_formats.h"

namespace spillway {

struct OptimizerSpec {
  enum class Kind : uint8_t {
    kAdamW,      // decoupled weight decay (Loshchilov and Hutter, 2019)
    kAdam,       // weight decay joins the gradient (L2)
    kSgd,        // weight decay joins the gradient (L2)
    kLion,       // decoupled weight decay (Chen et al., 2023)
    kLamb,       // decoupled, and a ratio of every tensor's (You et al., 2020)
    kAdafactor,  // decoupled, second moments by row and column (Shazeer and Stern, 2018)
  };
  // Which parameters weight decay touches.
  enum class Decay : uint8_t {
    kAll,       // as torch.optim does
    kMatrices,  // only tensors of two or more dimensions: no biases, no norms
    kTrainer,   // as Hugging Face's Trainer does: no biases, no norms, by the names of both
  };

  Kind kind = Kind::kAdamW;
  MomentFormat moments = MomentFormat::kFloat32;
  // Of weights in bf16; those of other dtypes are fp32.
  enum class Masters : uint8_t {
    kExact,  // fp32
    k24Bit,  // fp32's exponent and 16 bits of its mantissa, rounded at random
    kNone,   // the weight alone, rounded at random
  };
  Masters masters = Masters::kExact;
  double learning_rate = 5e-5;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  // Adam, AdamW: false leaves moments as they are, which begin at zero, as DeepSpeed's
  // bias_correction does.
  bool bias_correction = true;
  // Adam, AdamW, LAMB: when second moments move. 1-bit and 0/1 Adam let them stand still.
  struct SecondMoments {
    int64_t last_step = INT64_MAX;  // after it they stay as they are
    // 0/1 Adam: they move in every k-th step, and k doubles after so many moves. 0: in every step.
    int64_t moves_per_doubling = 0;

    bool MoveIn(int64_t step) const;
    friend bool operator==(const SecondMoments&, const SecondMoments&) = default;
  };
  SecondMoments second_moments = {};
  double weight_decay = 0.01;
  double momentum = 0;   // SGD
  double dampening = 0;  // SGD
  bool nesterov = false;
  double least_trust_ratio = 0.01;  // LAMB: DeepSpeed's min_coeff and max_coeff
  double most_trust_ratio = 10;
  // Adafactor. Second moments keep 1 - step^-decay_rate of themselves; a tensor's update is no more
  // than clip_threshold, as the root of its mean square; and where parameters scale, the rate is
  // relative to the root of theirs.
  double decay_rate = 0.8;
  double clip_threshold = 1;
  bool scale_parameter = false;
  Decay decay = Decay::kAll;

  friend bool operator==(const OptimizerSpec&, const OptimizerSpec&) = default;
};

// A second moment that is 0, as of a token that no sample has, is divided by eps alone: in fp32
// that must not be 0.
inline constexpr double kLeastEps = 1e-37;
// Adafactor: what a tensor's parameters are taken to be at least, that those near 0 can grow.
inline constexpr double kLeastParameterScale = 1e-3;
// Far beyond what any run decays by, and below what makes weights infinite in a step.
inline constexpr double kMostWeightDecay = 1e6;

// "adamw", "adam", "sgd", "lion", "lamb", "adafactor".
std::string OptimizerName(OptimizerSpec::Kind kind);

// "fp32", "bf16", "8bit", "fp8".
std::string MomentFormatName(MomentFormat moments);

// kInvalidArgument, naming the field and its limits, when a number makes no sense.
absl::Status ValidateOptimizer(const OptimizerSpec& spec);

// "exact", "24bit", "none".
std::string MastersName(OptimizerSpec::Masters masters);

// kInvalidArgument for a run in another dtype than bf16 whose masters are not exact.
absl::Status CheckMasters(const OptimizerSpec& spec, DType dtype);

}  // namespace spillway
