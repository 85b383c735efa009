// Which precision of products is faster on this CPU: what --compute auto chooses by.
//
// A processor that has bf16 instructions is not always faster with them, and how much faster
// depends on the shapes. So a model's own products are measured in the run's dtype and in fp32: the
// linear layers, convolutions, attention and the loss, forward and backward, by the functions that
// a step calls. Large sizes are cut down, and the seconds scaled up by the arithmetic left out.
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

// One kind of product in a micro-batch: the sizes at which it is measured, and how many times the
// arithmetic of one such forward and backward the micro-batch has.
struct MeasuredProduct {
  enum class Kind { kLinear, kConvolution, kAttention, kLoss };
  Kind kind = Kind::kLinear;
  int64_t rows = 0;  // tokens; of a convolution, pictures of kPictureSize x kPictureSize
  int64_t in = 0, out = 0;
  int64_t kernel = 1;  // height and width of a convolution's
  double times = 0;

  static constexpr int64_t kPictureSize = 14;
};

// Products of a micro-batch of `samples` x `length` tokens, or of `samples` pictures (`length` 1).
// Every matrix between the first and the last unit is a linear layer's; the largest one that the
// last unit reads is the loss's. Pure; any thread.
std::vector<MeasuredProduct> ProductsOf(const ModelDescription& model, int64_t samples,
                                        int64_t length);

// Seconds of a micro-batch's products, forward and backward, as estimated from the measured ones.
struct PrecisionSeconds {
  double own = 0;   // in the run's dtype
  double fp32 = 0;  // in fp32 and rounded to that dtype
};

// Measures for at most about a second, with LibTorch's threads as they are set, in at most 64 MiB
// of memory. `clock` gives seconds. kInternal where LibTorch fails.
absl::StatusOr<PrecisionSeconds> MeasurePrecisions(const std::vector<MeasuredProduct>& products,
                                                   DType dtype,
                                                   const std::function<double()>& clock);

// Sets options->compute, which --compute auto leaves open, and options->compute_reason. Keeps what
// the commit with `identity` was computed in (null: none) where this processor has instructions for
// it. Otherwise, on a processor with instructions for the dtype, by the machine's profile, or by
// MeasurePrecisions, which is then kept there. Without a profile (SPILLWAY_PROFILE=off) nothing is
// measured, and the dtype is taken. The first of several ranks (`world`, null: one) decides for
// all. REQUIRES: options->threads is set; every rank calls it.
absl::Status ChooseComputeByMeasuring(
    const ModelDescription& model, Dataset& data, bool on_gpu,
    const std::vector<std::pair<std::string, std::string>>* identity, Collectives* world,
    TrainOptions* options, const NativeProducts& native = NativeProductsHere());

}  // namespace spillway
