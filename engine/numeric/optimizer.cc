#include "engine/numeric/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "engine/numeric/gradient_loops.h"
#include "engine/numeric/optimizer_state.h"
#include "io/base/check.h"

namespace spillway {

using OptimizerKind = OptimizerSpec::Kind;

OptimizerTiles::OptimizerTiles(const OptimizerSpec& spec, DType dtype, const StateLayout& layout,
                               std::vector<std::vector<ParameterRange>> decayed,
                               UpdateRounding rounding)
    : spec_(spec),
      dtype_(dtype),
      layout_(layout),
      decayed_(std::move(decayed)),
      rounding_(std::move(rounding)) {
  SPILLWAY_CHECK(ValidateOptimizer(spec).ok());
  SPILLWAY_CHECK(layout_.planes() == StatePlanes(spec_, dtype_));
  SPILLWAY_CHECK(layout_.gradient_bytes_per_parameter() == DTypeBytes(dtype_));
  SPILLWAY_CHECK(decayed_.size() == layout_.units().size());
  SPILLWAY_CHECK(rounding_.first_parameters.empty() ||
                 rounding_.first_parameters.size() == layout_.units().size());
  for (const std::vector<ParameterRange>& ranges : decayed_) {
    uint64_t previous_end = 0;
    for (const ParameterRange& range : ranges) {
      SPILLWAY_CHECK(range.begin >= previous_end && range.end >= range.begin);
      previous_end = range.end;
    }
  }
}

void OptimizerTiles::MeasureWholeUnits() {
  if (!MeasuresFirst(spec_)) return;
  std::vector<TensorRatios::Shard> units;
  std::vector<std::vector<FactoredTensor>> rows;
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    const uint64_t parameters = layout_.units()[unit].parameters;
    units.push_back({{{0, parameters}}, {parameters}, 0, layout_.NumTiles(unit)});
    rows.push_back({{.columns = std::max<uint64_t>(1, parameters)}});
  }
  ratios_ = std::make_shared<TensorRatios>(std::move(units), 1, TensorRatioOf(spec_));
  if (!FactorsMoments(spec_)) return;
  moments_ = std::make_shared<FactoredMoments>(
      std::move(rows), std::vector<uint64_t>(layout_.num_units(), 0), spec_);
}

GradientPartial OptimizerTiles::Round(int unit, int tile, uint64_t parameters, const float* sums,
                                      void* gradient) {
  const double squares = RoundGradient(dtype_, sums, gradient, parameters);
  return {.sum_of_squares = squares, .finite = std::isfinite(squares)};
}

GradientPartial OptimizerTiles::Learn(int unit, int tile, uint64_t parameters,
                                      const void* gradient) {
  const double squares = SumOfSquares(dtype_, gradient, parameters);
  return {.sum_of_squares = squares, .finite = std::isfinite(squares)};
}

UpdateKind OptimizerTiles::kind() const {
  UpdateKind kind = {WeightFormatOf(spec_, dtype_), UpdateRule::kAdamW, spec_.moments};
  if (spec_.kind == OptimizerKind::kAdam) kind.rule = UpdateRule::kAdam;
  if (spec_.kind == OptimizerKind::kLion) kind.rule = UpdateRule::kLion;
  if (spec_.kind == OptimizerKind::kLamb) kind.rule = UpdateRule::kLamb;
  if (spec_.kind == OptimizerKind::kAdafactor) kind.rule = UpdateRule::kAdafactor;
  if (spec_.kind == OptimizerKind::kSgd) {
    kind.rule = spec_.momentum == 0 ? UpdateRule::kSgd
                : spec_.nesterov    ? UpdateRule::kSgdNesterov
                                    : UpdateRule::kSgdMomentum;
  }
  return kind;
}

// torch's first SGD step uses the gradient as the buffer, which equals a zero buffer without
// dampening.
UpdateConstants OptimizerTiles::ConstantsOf(const UpdateScalars& scalars, bool decays,
                                            double ratio) const {
  SPILLWAY_CHECK(scalars.step >= 1);
  const double lr = scalars.learning_rate;
  const double step = static_cast<double>(scalars.step);
  const double weight_decay = decays ? spec_.weight_decay : 0;
  const bool lion = spec_.kind == OptimizerKind::kLion;
  const bool corrects = HasMoment2(kind().rule) && spec_.bias_correction;
  const auto [beta1, beta2] = scalars.betas.value_or(std::array{spec_.beta1, spec_.beta2});
  const double bias_correction1 = corrects ? 1 - std::pow(beta1, step) : 1;
  const double bias_correction2 = corrects ? 1 - std::pow(beta2, step) : 1;
  const bool moves = spec_.second_moments.MoveIn(scalars.step);
  UpdateConstants c;
  c.gradient_scale = static_cast<float>(scalars.gradient_scale);
  c.decay_factor = static_cast<float>(1 - lr * weight_decay);
  c.weight_decay = static_cast<float>(weight_decay);
  c.one_minus_beta1 = static_cast<float>(1 - beta1);
  c.beta2 = moves ? static_cast<float>(beta2) : 1;
  c.one_minus_beta2 = moves ? static_cast<float>(1 - beta2) : 0;
  c.bias_correction2_sqrt = static_cast<float>(std::sqrt(bias_correction2));
  c.eps = static_cast<float>(spec_.eps);
  double step_size = lr * ratio / bias_correction1;
  if (spec_.kind == OptimizerKind::kLamb) step_size *= std::sqrt(bias_correction2);
  c.negative_step_size = static_cast<float>(-step_size);
  c.momentum = static_cast<float>(lion ? beta1 : spec_.momentum);
  c.one_minus_dampening = static_cast<float>(scalars.step == 1 ? 1 : 1 - spec_.dampening);
  c.rounding_key = MixedBits(MixedBits(static_cast<uint32_t>(rounding_.seed)) ^
                             static_cast<uint32_t>(rounding_.seed >> 32)) ^
                   MixedBits(static_cast<uint32_t>(scalars.step) + 0x9e3779b9);
  c.rounding_key = MixedBits(c.rounding_key);
  return c;
}

bool OptimizerTiles::Decays(int unit, uint64_t parameter) const {
  const std::vector<ParameterRange>& ranges = decayed_[unit];
  const auto range =
      std::upper_bound(ranges.begin(), ranges.end(), parameter,
                       [](uint64_t at, const ParameterRange& r) { return at < r.end; });
  return range != ranges.end() && range->begin <= parameter;
}

// Weight decay applies to a whole tensor, or not at all.
UpdateConstants OptimizerTiles::ConstantsOf(const UpdateScalars& scalars, int unit,
                                            const MeasuredPiece& piece) const {
  return ConstantsOf(scalars, Decays(unit, piece.begin), ratios_->ratio(unit, piece.tensor));
}

UpdatePiece OptimizerTiles::UpdateOf(const TileView& tile, const MeasuredPiece& piece,
                                     int constants) const {
  const uint64_t first = tile.first_parameter;
  return {piece.begin - first, piece.end - first, constants,
          moments_ == nullptr ? PieceFactors() : moments_->FactorsOf(tile.unit, piece)};
}

std::vector<UpdatePiece> OptimizerTiles::PiecesOf(const TileView& tile) const {
  const uint64_t first = tile.first_parameter;
  const uint64_t end = std::min(first + tile.parameters, layout_.units()[tile.unit].parameters);
  const std::vector<ParameterRange>& ranges = decayed_[tile.unit];
  auto range = std::upper_bound(
      ranges.begin(), ranges.end(), first,
      [](uint64_t parameter, const ParameterRange& r) { return parameter < r.end; });
  std::vector<UpdatePiece> pieces;
  for (uint64_t begin = first; begin < end;) {
    const bool decays = range != ranges.end() && range->begin <= begin;
    uint64_t piece_end = end;
    if (range != ranges.end()) {
      piece_end = std::min(end, decays ? range->end : range->begin);
    }
    if (piece_end > begin) {
      pieces.push_back({begin - first, piece_end - first, decays ? 1 : 0});
    }
    begin = piece_end;
    if (decays) {
      ++range;
    }
  }
  return pieces;
}

UpdatePlanes OptimizerTiles::PlanesOf(const TileView& tile, uint64_t count) const {
  const auto plane = [&](Plane which) -> void* {
    const int index = layout_.PlaneIndex(which);
    return index < 0 ? nullptr : tile.planes[index];
  };
  const bool sgd = spec_.kind == OptimizerKind::kSgd;
  const auto& firsts = rounding_.first_parameters;
  const uint64_t first = (firsts.empty() ? 0 : firsts[tile.unit]) + tile.first_parameter;
  return {
      .weight = plane(Plane::kWeight),
      .residual = plane(Plane::kResidual),
      .master = static_cast<float*>(plane(Plane::kMaster)),
      .moment1 = plane(sgd ? Plane::kMomentum : Plane::kExpAvg),
      .moment2 = plane(Plane::kExpAvgSq),
      .gradient = tile.gradient,
      .count = count,
      .scales1 = static_cast<float*>(plane(sgd ? Plane::kMomentumScale : Plane::kExpAvgScale)),
      .scales2 = static_cast<float*>(plane(Plane::kExpAvgSqScale)),
      .first_word = static_cast<uint32_t>(first) + MixedBits(tile.unit + 1),
  };
}

absl::Status OptimizerTiles::Update(const TileView& tile, const UpdateScalars& scalars) {
  if (scalars.skip) {
    return absl::OkStatus();
  }
  std::vector<UpdateConstants> constants;
  std::vector<UpdatePiece> pieces;
  if (!MeasuresFirst(spec_)) {
    constants = {ConstantsOf(scalars, false), ConstantsOf(scalars, true)};
    pieces = PiecesOf(tile);
  } else {
    const uint64_t first = tile.first_parameter;
    for (const MeasuredPiece& piece :
         ratios_->PiecesOf(tile.unit, first, first + tile.parameters, /*of_blocks=*/false)) {
      pieces.push_back(UpdateOf(tile, piece, static_cast<int>(constants.size())));
      constants.push_back(ConstantsOf(scalars, tile.unit, piece));
    }
  }
  return CheckUpdated(
      tile, scalars,
      UpdateParameters(kind(), PlanesOf(tile, tile.parameters), pieces, constants.data()));
}

void OptimizerTiles::Measure(const TileView& tile, const UpdateScalars& scalars, int measure) {
  const uint64_t first = tile.first_parameter, end = first + tile.parameters;
  const MeasurePasses passes = MeasuresOf(spec_);
  if (measure + 1 < passes.all()) {  // the last measurement is of ratios
    for (const MeasuredPiece& piece :
         ratios_->PiecesOf(tile.unit, first, end, /*of_blocks=*/false)) {
      const auto* const gradient = static_cast<const char*>(tile.gradient);
      moments_->AddSquares(tile.unit, piece, dtype_,
                           gradient + (piece.begin - first) * DTypeBytes(dtype_));
    }
    return;
  }
  UpdatePlanes planes = PlanesOf(tile, tile.parameters);
  if (passes.states == 0) planes.weight = nullptr;
  std::vector<MeasuredPiece> pieces = ratios_->PiecesOf(tile.unit, first, end, /*of_blocks=*/true);
  std::vector<UpdateSquares> squares;
  for (const MeasuredPiece& piece : pieces) {
    squares.push_back(MeasureParameters(kind(), planes, UpdateOf(tile, piece, 0),
                                        ConstantsOf(scalars, tile.unit, piece)));
  }
  ratios_->Put(tile.unit, tile.tile, std::move(pieces), std::move(squares));
}

absl::Status OptimizerTiles::CheckUpdated(const TileView& tile, const UpdateScalars& scalars,
                                          uint32_t largest_magnitude) {
  const WeightFormat format = kind().weights;
  if (scalars.skip || largest_magnitude < FirstUnstorableMagnitude(format)) {
    return absl::OkStatus();
  }
  const std::vector<UpdatePiece> pieces = PiecesOf(tile);
  float value = 0;
  const uint64_t index =
      FindUnstorable(format, PlanesOf(tile, pieces.empty() ? 0 : pieces.back().end), &value);
  // Such a decay flips signs, and makes weights larger.
  const bool decays = spec_.weight_decay * scalars.learning_rate > 1;
  return absl::OutOfRangeError(absl::StrFormat(
      "unit %s, step %d: parameter %d became %g, which %s cannot hold; lower the %slearning "
      "rate, warm it up, or clip gradients",
      layout_.units()[tile.unit].name, scalars.step, tile.first_parameter + index,
      // The sign of a NaN depends on the processor.
      std::isnan(value) ? std::abs(value) : value, DTypeName(dtype_),
      decays ? "weight decay or the " : ""));
}

}  // namespace spillway
