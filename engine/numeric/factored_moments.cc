#include "engine/numeric/factored_moments.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

uint64_t ValuesOf(const FactoredTensor& tensor) { return tensor.rows + tensor.columns; }

}  // namespace

FactoredMoments::FactoredMoments(std::vector<std::vector<FactoredTensor>> units,
                                 std::vector<uint64_t> first_parameters, const OptimizerSpec& spec)
    : first_parameters_(std::move(first_parameters)), decay_rate_(spec.decay_rate), eps_(spec.eps) {
  SPILLWAY_CHECK(first_parameters_.size() == units.size());
  uint64_t count = 0;
  for (const std::vector<FactoredTensor>& tensors : units) {
    std::vector<Place>& places = units_.emplace_back();
    for (const FactoredTensor& tensor : tensors) {
      places.push_back({tensor, count});
      count += ValuesOf(tensor);
      while (uint64_t{1} << log2_terms_ < std::max(tensor.rows, tensor.columns)) ++log2_terms_;
    }
  }
  values_.assign(count, 0);
  roots_.assign(count, 0);
  sums_.assign(2 * count, 0);
}

uint64_t FactoredMoments::BytesOf(const std::vector<std::vector<FactoredTensor>>& units,
                                  bool copies) {
  // Values, roots and sums, and the values of the last and the resumed commit. A commit has them as
  // text in four places for a while, and a copy of one in five more.
  constexpr uint64_t kTextBytes = 6;
  const uint64_t bytes_per_value = 4 + 4 + 16 + 4 + 4 + (copies ? 9 : 4) * kTextBytes;
  uint64_t values = 0;
  for (const std::vector<FactoredTensor>& tensors : units) {
    for (const FactoredTensor& tensor : tensors) values += ValuesOf(tensor);
  }
  return values * bytes_per_value;
}

void FactoredMoments::Begin(double sum_of_squares) {
  parts_ = SquareParts(sum_of_squares, log2_terms_);
}

uint64_t FactoredMoments::PositionOf(int unit, const MeasuredPiece& piece) const {
  return first_parameters_[unit] + piece.begin - PlaceOf(unit, piece.tensor).tensor.begin;
}

void FactoredMoments::AddSquares(int unit, const MeasuredPiece& piece, DType dtype,
                                 const void* gradient) {
  const Place& place = PlaceOf(unit, piece.tensor);
  const uint64_t columns = place.tensor.columns;
  const uint64_t first = PositionOf(unit, piece);
  const uint64_t last = first + (piece.end - piece.begin);
  if (last - first < columns && first / columns != (last - 1) / columns) {
    // Parts of two rows are added separately: each then needs no more sums than elements.
    const uint64_t cut = piece.begin + (columns - first % columns);
    const char* const rest =
        static_cast<const char*>(gradient) + (cut - piece.begin) * DTypeBytes(dtype);
    AddSquares(unit, {piece.begin, cut, piece.tensor}, dtype, gradient);
    AddSquares(unit, {cut, piece.end, piece.tensor}, dtype, rest);
    return;
  }
  // The piece's rows and columns; a part of a single row may have fewer columns.
  const uint64_t first_row = first / columns, rows = (last - 1) / columns - first_row + 1;
  const uint64_t first_column = rows == 1 ? first % columns : 0;
  const uint64_t width = rows == 1 ? last - first : columns;
  std::vector<double> of_rows(2 * rows), of_columns(2 * width);
  double* const high = of_columns.data();
  double* const low = high + width;
  for (uint64_t at = first; at < last;) {
    const uint64_t column = at % columns;
    const uint64_t count = std::min(last - at, columns - column);
    AddRowSquares(dtype, static_cast<const char*>(gradient) + (at - first) * DTypeBytes(dtype),
                  count, parts_, high + (column - first_column), low + (column - first_column),
                  &of_rows[2 * (at / columns - first_row)]);
    at += count;
  }
  MutexLock lock(mutex_);
  double* const row_sums = &sums_[2 * (place.first + first_row)];
  for (uint64_t i = 0; i < 2 * rows; ++i) row_sums[i] += of_rows[i];
  double* const column_sums = &sums_[2 * (place.first + place.tensor.rows + first_column)];
  for (uint64_t i = 0; i < width; ++i) {
    column_sums[2 * i] += high[i];
    column_sums[2 * i + 1] += low[i];
  }
}

void FactoredMoments::Take(const UpdateScalars& scalars) {
  SPILLWAY_CHECK(scalars.step >= 1 && !scalars.skip);
  const double kept = 1 - std::pow(static_cast<double>(scalars.step), -decay_rate_);
  const double scale = scalars.gradient_scale * scalars.gradient_scale;
  const auto take = [&](uint64_t first, uint64_t count, uint64_t terms) {
    for (uint64_t i = first; i < first + count; ++i) {
      const double sum = sums_[2 * i] + sums_[2 * i + 1];
      const double mean = sum * scale / static_cast<double>(terms) + eps_;
      values_[i] = static_cast<float>(kept * values_[i] + (1 - kept) * mean);
    }
  };
  const auto root = [&](uint64_t first, uint64_t count, double unit) {
    for (uint64_t i = first; i < first + count; ++i) {
      roots_[i] = static_cast<float>(1 / std::sqrt(values_[i] / unit));
    }
  };
  for (const std::vector<Place>& places : units_) {
    for (const Place& place : places) {
      const auto [begin, rows, columns] = place.tensor;
      take(place.first, rows, columns);
      take(place.first + rows, columns, rows);
      double sum = 0;
      for (uint64_t i = 0; i < rows; ++i) sum += values_[place.first + i];
      root(place.first, rows, sum / static_cast<double>(rows));
      root(place.first + rows, columns, 1);
    }
  }
  std::fill(sums_.begin(), sums_.end(), 0);
}

PieceFactors FactoredMoments::FactorsOf(int unit, const MeasuredPiece& piece) const {
  const Place& place = PlaceOf(unit, piece.tensor);
  const float* const rows = roots_.data() + place.first;
  return {rows, rows + place.tensor.rows, place.tensor.columns, PositionOf(unit, piece)};
}

absl::Status FactoredMoments::Restore(std::vector<float> values) {
  if (values.size() != values_.size()) {
    return WrongBytesError(absl::StrCat("the commit has ", values.size(),
                                        " of Adafactor's second moments, and the model's tensors ",
                                        values_.size(), " rows and columns"));
  }
  values_ = std::move(values);
  return absl::OkStatus();
}

}  // namespace spillway
