// What computing a model takes where it can't be measured: memory and arithmetic from its
// shape alone. Pure functions of values; any thread.
#pragma once

#include <cstdint>

#include "engine/data/token_masking.h"
#include "engine/machine/compute_precision.h"
#include "engine/model/model_shape.h"
#include "engine/model/step_compute.h"

namespace spillway {

// The shape of a step. tokens() are those of one micro-batch.
struct StepShape {
  int64_t micro_batch = 1;
  int64_t accumulate = 1;
  int64_t seq_len = 1;
  double mask_probability = kMaskProbability;  // of each token, where a model finds masked ones

  int64_t tokens() const { return micro_batch * seq_len; }
};

// Device memory of a step beside weights and gradient sums, as the dry run counts it:
//
//   every micro-batch   token ids and labels; one unit's input (hidden x tokens) and its gradient,
//                       and the inputs of all the others, wherever those wait
//   and the largest of  a layer's backward: what its recomputed forward saves for every token
//                       (9 hidden vectors, queries, keys and values, 3 or 4 intermediate ones)
//                       and the gradients of the layer's parameters;
//                       the head's: logits of a chunk of rows and the gradient of their matrix;
//                       the embedding's: the gradient of its matrices
//
// Where products of 16-bit matrices are made in fp32, a layer and the head also have the blocks of
// their largest product (engine/numeric/product_blocks.h).
//
// Gradients are of what is trained in `trained`, the model as a run would train it.
//
// Within a quarter of GPT-2's dry run (docs/ESTIMATE.md).
ComputeMemory ComputeMemoryOf(const ModelShape& shape, const ModelDescription& trained, DType dtype,
                              const StepShape& step, Products products);

// Memory and time of a dry run (engine/torch/dry_run.h), guessed beforehand: at 30 GFLOP/s, which
// two cores have, and at 100 million logits a second for what the loss does beside its products.
inline constexpr double kGuessedFlops = 3e10;
inline constexpr double kGuessedLogits = 1e8;  // in a second
struct DryRunCost {
  uint64_t bytes = 0;
  double seconds = 0;
};
DryRunCost DryRunCostOf(const ModelShape& shape, const ModelDescription& trained, DType dtype,
                        const StepShape& step, Products products);

// What keeping the graph of each unit's forward takes beside its input and output, and saves:
// of a layer 5 hidden vectors a token, queries, keys and values, and 2 or 3 intermediate ones,
// instead of its forward's arithmetic at `flops_per_second`. An embedding keeps nothing.
GraphCosts GraphCostsOf(const ModelShape& shape, DType dtype, const StepShape& step,
                        double flops_per_second);

// Floating-point operations of a step, two for a multiplication and its addition.
struct StepFlops {
  double forward = 0;   // of the layers
  double backward = 0;  // recomputed forward, backward, and the head with its backward
};
// 2 per parameter of the matrices that a token passes and 2 x 2 per token and key it sees in
// attention; backward is three times the forward, recompute included.
StepFlops FlopsOf(const ModelShape& shape, const StepShape& step);

}  // namespace spillway
