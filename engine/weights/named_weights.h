// The weights of a Hugging Face directory under the model's own names, read piece by piece.
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

// The parameter (or buffer) that each tensor of the files is, by the tensor's name; a parameter may
// be there under several. Not those that are left aside (for their size, too) or belong to no
// parameter.
std::map<std::string, std::string> ParametersOfTensors(const TensorNames& names,
                                                       const SafetensorsModel& model);

// What transformers' model calls a parameter: its name, or the one that stands in that one's place
// (GPT-NeoX's embed_out has become lm_head); behind it the names of what is tied to it.
std::vector<std::string> NamesOfParameter(const TensorNames& names, const std::string& parameter);

// What a model's files have packed: the format (kNone: nothing is), and the matrices of it.
struct PackedMatrices {
  PackedFormat format = PackedFormat::kNone;
  std::set<std::string> names;
};
PackedMatrices PackedMatricesOf(const TensorNames& names, const WeightSource& weights);

// Matches the tensors of `model` to the parameters that `names` lists. With a tied head its tensor
// may be there (its values must then be the other's; a file whose head differs is refused by the
// read that finds it, because transformers would not tie it) or stand in for the other.
// InvalidArgument names a tensor that is missing, unexpected, doubled or misshapen, with the
// expected and the found shape. Reads go through `model`, which must outlive the source. Compute
// thread only.
//
// `initial`, where it is given, has the values of parameters of a new head (TensorNames::new_head)
// that are missing, as when a pre-trained encoder is to classify, and of those whose tensor has
// another size (TensorNames::ignores_sizes); it outlives the source, and lines of the log name
// them, as they name tensors of other heads that are left aside.
//
// Rows that the files lack of a parameter that has grown (TensorNames::grown) are the mean of those
// that they have, as transformers' resize_token_embeddings has it but for its draw around that
// mean.
//
// `elsewhere`: parameters that nobody will read here, and that the files need not have, or may have
// in another shape.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenNamedWeights(
    const TensorNames& names, SafetensorsModel* model, WeightSource* initial = nullptr,
    const std::set<std::string>& elsewhere = {});

}  // namespace spillway
