#include "engine/generation/text_units.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "engine/torch/describe_model.h"
#include "engine/torch/tensor_views.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<TextUnits> TextUnits::Of(const Model& model) {
  ASSIGN_OR_RETURN(ModelDescription description, DescribeModel(model));
  ASSIGN_OR_RETURN(ValueFlow flow, ValueFlow::Of(model));
  TextUnits units(model, std::move(description), std::move(flow));
  std::set<int> borrowed;
  for (int unit = units.first(); unit <= units.last(); ++unit) {
    if (unit < units.last()) units.continues_ &= model.units[unit]->KeptPerPosition() >= 0;
    const std::vector<int>& from = units.description_.units[unit].borrows;
    borrowed.insert(from.begin(), from.end());
  }
  if (units.first() > 0 && !units.continues_) {
    return absl::UnimplementedError(
        "a model with an encoder generates only where each other unit has a ForwardNext");
  }
  for (int unit = 0; unit < units.first(); ++unit) {
    if (borrowed.count(unit) > 0) continue;
    const std::string name = units.description_.units[unit].name;
    units.description_.units[unit] = UnitDescription{name};
  }
  // What is left of the encoder's units that are never trained.
  std::vector<UnitDescription>& all = units.description_.units;
  for (size_t part = units.last() + 1; part < all.size(); ++part) {
    SPILLWAY_CHECK(all[part].part_of < units.first());
  }
  all.resize(units.last() + 1);
  return units;
}

int64_t TextUnits::KeptPerPosition(int unit) const {
  if (!continues_ || unit < first() || unit == last()) return 0;
  return model_->units[unit]->KeptPerPosition();
}

std::string TextUnits::Signature(int unit) const {
  if (unit == first() || unit == last() || flow_.kept(unit)) return "";
  std::string text = absl::StrCat(KeptPerPosition(unit));
  for (const ParameterDescription& parameter : description_.units[unit].parameters) {
    absl::StrAppend(&text, ";");
    for (const int64_t size : parameter.shape) absl::StrAppend(&text, size, ",");
  }
  return text;
}

torch::Tensor TextUnits::Run(int unit, const std::vector<torch::Tensor>& parameters,
                             const torch::Tensor& kept, bool fp32_products,
                             TextPiece& piece) const {
  const UnitContext context =
      UnitContext(0, 0, unit, {0}, /*training=*/false, {.in_fp32 = fp32_products})
          .With(nullptr, piece.values.Outputs(flow_.reads(unit)));
  if (unit == last()) {
    return model_->loss->Logits(context, parameters, piece.x.select(1, -1).contiguous());
  }
  const torch::Tensor& x = flow_.input(unit).empty() ? piece.x : piece.tokens;
  const Unit& one = *model_->units[unit];
  torch::Tensor y = continues_
                        ? one.ForwardNext(context, parameters, x, {piece.first, kept, piece.source})
                        : one.Forward(context, parameters, x);
  y = ApartFrom(parameters, y);
  if (flow_.kept(unit)) piece.values.Keep(unit, y);
  return y;
}

void TextUnits::KeepSource(const torch::Tensor& source, TextPiece& piece) const {
  if (first() > 0) piece.values.Keep(first() - 1, source);
}

}  // namespace spillway
