// The model of a TransformerConfig: units "embedding", "h.0" .. "h.N-1" and the loss unit "head" of
// a language model, or "classifier" or "spans" and the loss unit "loss". Parameters have
// transformers' names and shapes, so trained weights load there.
//
//   embedding   rows of the tokens, with learned positions where there are; inputs [samples, T]
//               int64 -> [samples, T, D]. An encoder's are of engine/torch/text_batch.h
//   h.i         attention and an MLP with their norms, in the config's order; [samples, T, D],
//               in and out
//   head        final norm, logits against the tokens' matrix (borrowed) or one of its own,
//               cross-entropy
//   norm        the final norm, of models that have an encoder and a decoder
//   bias        engine/layers/relative_bias.h
//   classifier  engine/layers/classifier.h
//   spans       engine/layers/span_head.h
//   loss        engine/layers/label_loss.h, or engine/layers/span_head.h
//
// With an encoder, the decoder attends to the output of the encoder's last unit, a value; batches
// have the fields of engine/torch/text_batch.h for both.
//
// Logits, loss and gradients equal transformers' within rounding; attention with dropout keeps no T
// x T matrix between forward and backward.
#pragma once

#include "absl/status/statusor.h"
#include "engine/families/transformer_config.h"
#include "engine/torch/model.h"

namespace spillway {

// InvalidArgument for a config that was made in code and contradicts itself.
absl::StatusOr<Model> BuildTransformer(const TransformerConfig& config);

}  // namespace spillway
