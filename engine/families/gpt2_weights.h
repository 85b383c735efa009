// The weights of a Hugging Face GPT-2 directory under our names, read piece by piece.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/families/gpt2_config.h"
#include "engine/weights/safetensors_model.h"
#include "engine/weights/weight_source.h"

namespace spillway {

// Matches the tensors of `model` to the parameters of BuildGpt2(config):
//   - names with or without the leading "transformer.";
//   - the causal-mask buffers of hub files (attn.bias, attn.masked_bias) are ignored;
//   - with a tied head, lm_head.weight may be there (its values must then be wte's; a file whose
//     head differs is refused by the read that finds it, because transformers would not tie it)
//     or stand in for a missing wte.
// InvalidArgument names a tensor that is missing, unexpected or misshapen, with the
// expected and the found shape. Reads go through `model`, which must outlive the
// source. Compute thread only.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenGpt2Weights(const Gpt2Config& config,
                                                              SafetensorsModel* model);

}  // namespace spillway
