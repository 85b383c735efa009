#include "engine/numeric/tensor_ratios.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "io/base/check.h"

namespace spillway {

TensorRatio TensorRatioOf(const OptimizerSpec& spec) {
  if (spec.kind == OptimizerSpec::Kind::kLamb) {
    return [least = spec.least_trust_ratio, most = spec.most_trust_ratio](const TensorSquares& of) {
      // A zero tensor, such as a new bias, has the ratio 1.
      const bool any = of.weights > 0 && of.directions > 0;
      return any ? std::clamp(std::sqrt(of.weights / of.directions), least, most) : 1;
    };
  }
  SPILLWAY_CHECK(spec.kind == OptimizerSpec::Kind::kAdafactor);
  return [most = spec.clip_threshold, scales = spec.scale_parameter](const TensorSquares& of) {
    const double count = static_cast<double>(std::max<uint64_t>(1, of.parameters));
    const double size = std::sqrt(of.directions / count);
    const double scale =
        scales ? std::max(kLeastParameterScale, std::sqrt(of.weights / count)) : 1.0;
    return size > most ? scale * most / size : scale;
  };
}

TensorRatios::TensorRatios(std::vector<Shard> units, int portions, TensorRatio ratio)
    : units_(std::move(units)), portions_(portions), ratio_(std::move(ratio)) {
  for (const Shard& unit : units_) {
    SPILLWAY_CHECK(unit.portion_parameters % kBlock == 0);
    SPILLWAY_CHECK(unit.parameters.size() == unit.tensors.size());
    parameters_.insert(parameters_.end(), unit.parameters.begin(), unit.parameters.end());
    first_.push_back(tensors_);
    tensors_ += static_cast<int>(unit.tensors.size());
    tiles_.emplace_back(unit.tiles);
  }
  next_.assign(units_.size(), 0);
  ratios_.assign(tensors_, 1);
  sums_.assign(2 * static_cast<size_t>(tensors_) * portions_, 0);
}

std::vector<MeasuredPiece> TensorRatios::PiecesOf(int unit, uint64_t begin, uint64_t end,
                                                  bool of_blocks) const {
  const std::vector<ParameterRange>& tensors = units_[unit].tensors;
  std::vector<MeasuredPiece> pieces;
  for (size_t i = 0; i < tensors.size(); ++i) {
    uint64_t from = std::max(begin, tensors[i].begin);
    const uint64_t last = std::min(end, tensors[i].end);
    while (from < last) {
      const uint64_t to = of_blocks ? std::min(last, (from / kBlock + 1) * kBlock) : last;
      pieces.push_back({from, to, static_cast<int>(i)});
      from = to;
    }
  }
  return pieces;
}

void TensorRatios::Put(int unit, int tile, std::vector<MeasuredPiece> pieces,
                       std::vector<UpdateSquares> squares) {
  MutexLock lock(mutex_);
  std::vector<std::optional<Tile>>& tiles = tiles_[unit];
  tiles[tile] = {std::move(pieces), std::move(squares)};
  // Tiles are added in this order, however they arrive.
  int& next = next_[unit];
  for (; next < units_[unit].tiles && tiles[next].has_value(); ++next) {
    Add(unit, *std::exchange(tiles[next], std::nullopt));
  }
  if (next == units_[unit].tiles) next = 0;
}

void TensorRatios::Add(int unit, const Tile& tile) {
  const uint64_t portion = units_[unit].portion_parameters;
  for (size_t i = 0; i < tile.pieces.size(); ++i) {
    const MeasuredPiece& piece = tile.pieces[i];
    const uint64_t number = portion == 0 ? 0 : piece.begin / portion;
    double* const sum = &sums_[2 * (number * tensors_ + first_[unit] + piece.tensor)];
    sum[0] += tile.squares[i].weights;
    sum[1] += tile.squares[i].directions;
  }
}

std::vector<double> TensorRatios::TakeSums() {
  MutexLock lock(mutex_);
  return std::exchange(sums_, std::vector<double>(sums_.size(), 0));
}

void TensorRatios::Use(absl::Span<const double> sums) {
  SPILLWAY_CHECK(sums.size() % (2 * static_cast<size_t>(tensors_)) == 0);
  for (int tensor = 0; tensor < tensors_; ++tensor) {
    TensorSquares of = {.parameters = parameters_[tensor]};
    for (size_t i = 2 * tensor; i < sums.size(); i += 2 * tensors_) {
      of.weights += sums[i];
      of.directions += sums[i + 1];
    }
    ratios_[tensor] = ratio_(of);
  }
}

}  // namespace spillway
