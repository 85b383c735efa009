// Reads the weights of a Hugging Face directory under the model's own names, piece by piece.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/tensor_names.h"
#include "engine/weights/safetensors_model.h"
#include "engine/weights/weight_source.h"

namespace spillway {

// Maps each tensor of the files to its parameter (or buffer); several tensors may have the same
// one. Tensors that are ignored (also for their size) or belong to no parameter are left out.
std::map<std::string, std::string> ParametersOfTensors(const TensorNames& names,
                                                       const SafetensorsModel& model);

// The names of a parameter in transformers' model: its own, or the one that replaces it (GPT-NeoX's
// embed_out has become lm_head), followed by those of tied parameters.
std::vector<std::string> NamesOfParameter(const TensorNames& names, const std::string& parameter);

// The packed matrices of a model's files and their format (kNone: nothing is packed).
struct PackedMatrices {
  PackedFormat format = PackedFormat::kNone;
  std::set<std::string> names;
};
PackedMatrices PackedMatricesOf(const TensorNames& names, const WeightSource& weights);

// Matches the tensors of `model` to the parameters that `names` lists. With a tied head its tensor
// may exist too, and must then have equal values (a read that finds a difference fails, since
// transformers would not tie it), or replace the other. InvalidArgument names a tensor that is
// missing, unexpected, duplicate or misshapen, with the expected and the found shape. Reads go
// through `model`, which must outlive the source. Compute thread only.
// `initial`, if given, has the values of missing parameters of a new head (TensorNames::new_head),
// as when a pre-trained encoder is to classify, and of those whose tensor has another size
// (TensorNames::ignores_sizes); it outlives the source. The log names them, and tensors of other
// heads that are ignored.
//
// Rows that the files lack of a parameter that has grown (TensorNames::grown) are the mean of the
// rows they have, like transformers' resize_token_embeddings without its random part.
//
// `elsewhere`: parameters that are not read here, and that the files need not have, or may have in
// another shape.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenNamedWeights(
    const TensorNames& names, SafetensorsModel* model, WeightSource* initial = nullptr,
    const std::set<std::string>& elsewhere = {});

}  // namespace spillway
