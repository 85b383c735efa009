// Finds the faster precision of products on this CPU, for --compute auto.
//
// A processor with bf16 instructions is not always faster with them, and the ratio depends on the
// shapes. So a model's own products are measured in the run's dtype and in fp32: the linear layers,
// convolutions, attention and the loss, forward and backward, by the functions of a step. Large
// sizes are reduced, and the seconds scaled by the omitted arithmetic.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/machine/compute_precision.h"
#include "engine/model/model_description.h"
#include "engine/numeric/dtype.h"
#include "engine/options/train_options.h"
#include "engine/ranks/collectives.h"
#include "engine/torch/model.h"

namespace spillway {

// One kind of product in a micro-batch: the measured sizes, and the ratio of the micro-batch's
// arithmetic to that of one such forward and backward.
struct MeasuredProduct {
  enum class Kind { kLinear, kConvolution, kAttention, kLoss };
  Kind kind = Kind::kLinear;
  int64_t rows = 0;  // tokens; for a convolution, pictures of kPictureSize x kPictureSize
  int64_t in = 0, out = 0;
  int64_t kernel = 1;  // height and width of a convolution's kernel
  double times = 0;

  static constexpr int64_t kPictureSize = 14;
};

// Products of a micro-batch of `samples` x `length` tokens, or of `samples` pictures (`length` 1).
// Every matrix between the first and the last unit counts as a linear layer's; the largest one that
// the last unit reads is the loss's. Pure; any thread.
std::vector<MeasuredProduct> ProductsOf(const ModelDescription& model, int64_t samples,
                                        int64_t length);

// Seconds of a micro-batch's products, forward and backward, as estimated from the measured ones.
struct PrecisionSeconds {
  double own = 0;   // in the run's dtype
  double fp32 = 0;  // in fp32 and rounded to that dtype
};

// Measures for at most about a second, with LibTorch's current threads, in at most 64 MiB of
// memory. `clock` returns seconds. kInternal if LibTorch fails.
absl::StatusOr<PrecisionSeconds> MeasurePrecisions(const std::vector<MeasuredProduct>& products,
                                                   DType dtype,
                                                   const std::function<double()>& clock);

// Resolves --compute auto: sets options->compute and options->compute_reason. Uses the dtype of the
// commit with `identity` (null: none) if this processor has instructions for it. Otherwise, on a
// processor with instructions for the dtype, the machine's profile decides, or MeasurePrecisions,
// whose result is saved there. Without a profile (SPILLWAY_PROFILE=off) nothing is measured, and
// the dtype is used. The first of several ranks (`world`, null: one) decides for all. REQUIRES:
// options->threads is set; every rank calls it.
absl::Status ChooseComputeByMeasuring(
    const ModelDescription& model, Dataset& data, bool on_gpu,
    const std::vector<std::pair<std::string, std::string>>* identity, Collectives* world,
    TrainOptions* options, const NativeProducts& native = NativeProductsHere());

}  // namespace spillway
