// The units of a model that continue texts: all of them, or those behind its encoder.
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
  torch::Tensor x;  // what goes into the next unit
  torch::Tensor tokens;
  int64_t source = 0;  // positions of what the encoder made of the text's source
  KeptValues values;   // what later units read, too

  // Positions that are kept before these are computed, those of the source included.
  int64_t kept() const { return first == 0 ? 0 : source + first; }
};

class TextUnits {
 public:
  // `model` outlives it. kUnimplemented where units behind an encoder have no ForwardNext.
  static absl::StatusOr<TextUnits> Of(const Model& model);

  const Model& model() const { return *model_; }
  // Of the whole model, but that units of the encoder that nobody else borrows from are empty.
  const ModelDescription& description() const { return description_; }
  int first() const { return model_->encoder_units; }
  int last() const { return static_cast<int>(model_->units.size()); }  // the loss
  // Every unit has a ForwardNext; otherwise the whole text is computed for every token.
  bool continues() const { return continues_; }
  // Elements; 0 where nothing is kept.
  int64_t KeptPerPosition(int unit) const;

  // Two units for which it is the same take the same memory to compute; "": another's is none of
  // its business, as later units read what it makes.
  std::string Signature(int unit) const;

  // What a unit makes of the piece, which keeps it for those that read it later; of the last the
  // logits of the piece's last position. `kept`: TextPosition::kept.
  torch::Tensor Run(int unit, const std::vector<torch::Tensor>& parameters,
                    const torch::Tensor& kept, bool fp32_products, TextPiece& piece) const;
  // Gives it what the encoder made: undefined where the units have seen it.
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
