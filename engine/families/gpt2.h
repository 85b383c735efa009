// The GPT-2 family as a Model: units "embedding", "h.0" .. "h.N-1" and the loss unit
// "head". Parameters carry transformers' names and shapes (Conv1D weights are
// [in, out]), so what is trained here loads there.
//
//   embedding  wte [V, D], wpe [P, D]; inputs [samples, T] int64 -> [samples, T, D]
//   h.i        layer norm, causal attention, layer norm, MLP; [samples, T, D] -> same
//   head       final layer norm, logits against wte (borrowed; or an lm_head of its
//              own when untied), cross-entropy
//
// Logits, loss and gradients are transformers' within rounding; attention with
// dropout keeps no T x T matrix between forward and backward.
#pragma once

#include "absl/status/statusor.h"
#include "engine/families/gpt2_config.h"
#include "engine/torch/model.h"

namespace spillway {

// InvalidArgument for a config that was not checked by ParseGpt2Config and is wrong.
absl::StatusOr<Model> BuildGpt2(const Gpt2Config& config);

}  // namespace spillway
