#include "engine/weights/packed_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Bytes of fp32 values that each thread packs at once.
constexpr int64_t kBandBytes = 8 << 20;

int64_t BandRows(const PackedShape& shape) {
  const int64_t rows = kBandBytes / (std::max<int64_t>(1, shape.columns) * 4);
  return std::max<int64_t>(1, rows / MatrixPacker::kRows) * MatrixPacker::kRows;
}

}  // namespace

PackedWeights::PackedWeights(WeightSource* source, const ModelDescription& model)
    : source_(source) {
  for (const UnitDescription& unit : model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      if (parameter.packing.any()) parameters_[parameter.name] = &parameter;
    }
  }
}

absl::Status PackedWeights::Read(const std::string& name, uint64_t first, uint64_t count,
                                 float* out) {
  const auto found = parameters_.find(name);
  if (found == parameters_.end()) return source_->Read(name, first, count, out);
  const ParameterDescription& parameter = *found->second;
  ASSIGN_OR_RETURN(const auto packed, cache_.Get(name, [&](PackedCache::Bytes* bytes) {
    return Pack(parameter, bytes);
  }));
  const uint32_t word_bytes = parameter.packing.word_bytes;
  const char* from = packed->data() + first * word_bytes;
  for (uint64_t i = 0; i < count; ++i, from += word_bytes) {
    uint32_t word = 0;
    std::memcpy(&word, from, word_bytes);
    out[i] = __builtin_bit_cast(float, word);
  }
  return absl::OkStatus();
}

std::optional<StoredTensor> PackedWeights::Stored(const std::string& name) const {
  return parameters_.count(name) > 0 ? std::nullopt : source_->Stored(name);
}

absl::Status PackedWeights::Pack(const ParameterDescription& parameter, PackedCache::Bytes* bytes) {
  const PackedShape shape = parameter.packed_shape();
  bytes->resize(shape.bytes());
  if (source_->packed(parameter.name) == shape.format) {
    return source_->ReadPacked(parameter.name, shape, bytes->data());
  }
  MatrixPacker packer(shape, bytes->data());
  std::vector<float> band;
  for (int64_t row = 0; row < shape.rows; row += BandRows(shape)) {
    const int64_t rows = std::min(BandRows(shape), shape.rows - row);
    band.resize(static_cast<size_t>(rows * shape.columns));
    RETURN_IF_ERROR(ReadRows(parameter, row, rows, band.data()));
    if (!std::all_of(band.begin(), band.end(), [](float v) { return std::isfinite(v); })) {
      return absl::InvalidArgumentError(absl::StrCat("the initial weights of \"", parameter.name,
                                                     "\" hold a value that is not finite"));
    }
    packer.Add(band.data(), rows);
  }
  packer.Finish();
  return absl::OkStatus();
}

absl::Status PackedWeights::ReadRows(const ParameterDescription& parameter, int64_t row,
                                     int64_t rows, float* out) {
  const PackedShape shape = parameter.packed_shape();
  const auto count = static_cast<uint64_t>(rows);
  if (parameter.linear != LinearWeight::kInOut) {
    const auto columns = static_cast<uint64_t>(shape.columns);
    return source_->Read(parameter.name, static_cast<uint64_t>(row) * columns, count * columns,
                         out);
  }
  std::vector<float> of_column(count);
  for (int64_t column = 0; column < shape.columns; ++column) {
    RETURN_IF_ERROR(source_->Read(parameter.name, static_cast<uint64_t>(column * shape.rows + row),
                                  count, of_column.data()));
    for (int64_t i = 0; i < rows; ++i) out[i * shape.columns + column] = of_column[i];
  }
  return absl::OkStatus();
}

}  // namespace spillway
