// The units of a model that continue texts: all of them, or those after its encoder.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_description.h"
#include "engine/torch/model.h"
#include "engine/torch/value_flow.h"

namespace spillway {

// A row's next positions, from `first` on.
struct TextPiece {
  int row = 0;
  int64_t first = 0, length = 0;
  torch::Tensor x;  // input of the next unit
  torch::Tensor tokens;
  int64_t source = 0;  // positions of the encoder's output
  KeptValues values;   // values that later units read, too

  // Cached positions before this piece, including those of the source.
  int64_t kept() const { return first == 0 ? 0 : source + first; }
};

class TextUnits {
 public:
  // `model` outlives the object. kUnimplemented if units after an encoder have no ForwardNext.
  static absl::StatusOr<TextUnits> Of(const Model& model);

  const Model& model() const { return *model_; }
  // The whole model's, without the parameters of encoder units from which no other unit borrows.
  const ModelDescription& description() const { return description_; }
  int first() const { return model_->encoder_units; }
  int last() const { return static_cast<int>(model_->units.size()); }  // the loss
  // Whether every unit has a ForwardNext; otherwise the whole text is computed for every token.
  bool continues() const { return continues_; }
  // Number of elements; 0 without a cache.
  int64_t KeptPerPosition(int unit) const;

  // Units with equal signatures need equal memory to compute; "": the unit equals no other, since
  // later units read its output.
  std::string Signature(int unit) const;

  // Computes the unit's output for the piece, and stores it there if later units read it; for the
  // last unit the logits of the piece's last position. `kept`: TextPosition::kept.
  torch::Tensor Run(int unit, const std::vector<torch::Tensor>& parameters,
                    const torch::Tensor& kept, bool fp32_products, TextPiece& piece) const;
  // Stores the encoder's output in the piece: undefined if the units have read it already.
  void KeepSource(const torch::Tensor& source, TextPiece& piece) const;

 private:
  TextUnits(const Model& model, ModelDescription description, ValueFlow flow)
      : model_(&model), description_(std::move(description)), flow_(std::move(flow)) {}

  const Model* model_;
  ModelDescription description_;
  ValueFlow flow_;
  bool continues_ = true;
};

}  // namespace spillway
