// The last operations of a language model: logits and their cross-entropy in one step.
#pragma once

#include <torch/types.h>

namespace spillway {

// hidden [rows, D], weight [V, D] (one dtype), labels [rows] int64 -> fp32 scalar: the sum of -log
// softmax(hidden @ weight^T + bias)[label] over rows whose label is not kIgnoredLabel. bias [V] of
// that dtype, or undefined: none. Logits are rounded to the dtype, the rest is fp32;
// `fp32_products`: also the products and those of their gradients (engine/torch/product.h).
// `smoothing`: the part of each label that all V classes share: a row's loss is (1 - smoothing)
// times that plus smoothing times the mean of its -log softmax, as in transformers' LabelSmoother.
//
// Between forward and backward it keeps the logits (in their dtype) and one fp32 number a row;
// backward replaces the logits by their gradient in place, rounded once. So backward runs only once
// (no double backward).
torch::Tensor CrossEntropySum(const torch::Tensor& hidden, const torch::Tensor& weight,
                              const torch::Tensor& labels, bool fp32_products = false,
                              double smoothing = 0, const torch::Tensor& bias = {});

}  // namespace spillway
