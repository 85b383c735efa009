// The settings of optimizers. (Their state: optimizer_state.h.)
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
    kLamb,       // decoupled, with a trust ratio for every tensor (You et al., 2020)
    kAdafactor,  // decoupled, second moments by row and column (Shazeer and Stern, 2018)
  };
  // The parameters with weight decay.
  enum class Decay : uint8_t {
    kAll,       // as torch.optim does
    kMatrices,  // only tensors of two or more dimensions: no biases, no norms
    kTrainer,   // Hugging Face's Trainer: no biases, no norms, by their names
  };

  Kind kind = Kind::kAdamW;
  MomentFormat moments = MomentFormat::kFloat32;
  // The masters of bf16 weights; other dtypes have fp32 masters.
  enum class Masters : uint8_t {
    kExact,  // fp32
    k24Bit,  // fp32's exponent and 16 bits of its mantissa, rounded stochastically
    kNone,   // no master; the weight is rounded stochastically
  };
  Masters masters = Masters::kExact;
  double learning_rate = 5e-5;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  // Adam, AdamW: false uses the moments uncorrected, although they start at zero, like DeepSpeed's
  // bias_correction.
  bool bias_correction = true;
  // Adam, AdamW, LAMB: the steps that update second moments. 1-bit and 0/1 Adam freeze them.
  struct SecondMoments {
    int64_t last_step = INT64_MAX;  // the last step that updates them
    // 0/1 Adam: they are updated in every k-th step, and k doubles after this many updates. 0:
    // every step.
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
  // Adafactor: second moments keep 1 - step^-decay_rate of themselves; a tensor's update is limited
  // to a root mean square of clip_threshold; with scaling by parameters, the rate is relative to
  // their root mean square.
  double decay_rate = 0.8;
  double clip_threshold = 1;
  bool scale_parameter = false;
  Decay decay = Decay::kAll;

  friend bool operator==(const OptimizerSpec&, const OptimizerSpec&) = default;
};

// The least eps. A second moment that is 0, as for a token that no sample has, is divided by eps
// alone, which must not be 0 in fp32.
inline constexpr double kLeastEps = 1e-37;
// Adafactor: the least parameter scale, so that parameters near 0 can grow.
inline constexpr double kLeastParameterScale = 1e-3;
// Far above any useful decay, and too small to make weights infinite in a step.
inline constexpr double kMostWeightDecay = 1e6;

// "adamw", "adam", "sgd", "lion", "lamb", "adafactor".
std::string OptimizerName(OptimizerSpec::Kind kind);

// "fp32", "bf16", "8bit", "fp8".
std::string MomentFormatName(MomentFormat moments);

// kInvalidArgument, naming the field and its limits, when a number makes no sense.
absl::Status ValidateOptimizer(const OptimizerSpec& spec);

// "exact", "24bit", "none".
std::string MastersName(OptimizerSpec::Masters masters);

// kInvalidArgument for masters that are not exact in another dtype than bf16.
absl::Status CheckMasters(const OptimizerSpec& spec, DType dtype);

}  // namespace spillway
