// A decoder-only language model as a Model: units "embedding", "h.0" .. "h.N-1" and the loss unit
// "head". Parameters carry transformers' names and shapes, so what is trained here loads there.
//
//   embedding  rows of the tokens, with learned positions where there are; inputs [samples, T]
//              int64 -> [samples, T, D]
//   h.i        attention and an MLP with their norms, in the config's order; [samples, T, D] ->
//   same head       final norm, logits against the tokens' matrix (borrowed) or one of its own,
//              cross-entropy
//
// Logits, loss and gradients are transformers' within rounding; attention with dropout keeps no
// T x T matrix between forward and backward.
#pragma once

#include "absl/status/statusor.h"
#include "engine/families/decoder_config.h"
#include "engine/torch/model.h"

namespace spillway {

// InvalidArgument for a config that was made in code and contradicts itself.
absl::StatusOr<Model> BuildDecoder(const DecoderConfig& config);

}  // namespace spillway
