// The end of a language model: logits and their cross-entropy in one step.
#pragma once

#include <torch/types.h>

namespace spillway {

// hidden [rows, D], weight [V, D] (one dtype), labels [rows] int64 -> fp32 scalar: the
// sum of -log softmax(hidden @ weight^T + bias)[label] over rows whose label is not
// kIgnoredLabel. bias [V] of that dtype, or undefined: none. Logits are rounded to the dtype, the
// rest is fp32; `fp32_products`: the products and those of their gradients too
// (engine/torch/product.h). `smoothing`: the part of each label that all V classes share, so that a
// row's loss is (1 - smoothing) of that and smoothing of the mean of all its -log softmax, as
// transformers' LabelSmoother has it.
//
// Between forward and backward it keeps the logits (in their dtype) and one fp32
// number a row; backward turns the logits into their gradient where they lie, rounded
// once. So backward runs once, and not twice through (no double backward).
torch::Tensor CrossEntropySum(const torch::Tensor& hidden, const torch::Tensor& weight,
                              const torch::Tensor& labels, bool fp32_products = false,
                              double smoothing = 0, const torch::Tensor& bias = {});

}  // namespace spillway
