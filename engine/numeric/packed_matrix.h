// Matrices in fewer bits than a run's dtype: values, layout of a file's tensors and rounding are
// those of bitsandbytes (0.50).
//
// int8: each row is scaled by its largest magnitude over 127. nf4: row-major in blocks of 64, two
// values per byte (the first in the high bits), each the nearest of sixteen fixed values times the
// block's largest magnitude. The magnitudes are stored in fp32, or ("double quantisation") as codes
// of one byte, in blocks of 256 with a scale each, plus a common mean.
//
// A packed matrix is one run of bytes, scales first, so that it can be unpacked as it is read.
// Plain values, pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/numeric/number_formats.h"

namespace spillway {

// The manifest has values by name only.
enum class PackedFormat : uint8_t { kNone, kInt8, kNf4, kNf4Nested };

// "int8", "nf4 with fp32 scales", "nf4"; "none".
absl::string_view PackedFormatName(PackedFormat format);
std::optional<PackedFormat> PackedFormatFromName(absl::string_view name);

// The format of a run's frozen matrices, in words of its dtype.
struct Packing {
  PackedFormat format = PackedFormat::kNone;
  uint32_t word_bytes = 0;

  bool any() const { return format != PackedFormat::kNone; }
  friend bool operator==(const Packing&, const Packing&) = default;
};

// Offsets of the parts of a packed matrix [rows, columns], in bytes.
struct PackedShape {
  PackedFormat format = PackedFormat::kNone;
  int64_t rows = 0;
  int64_t columns = 0;

  static constexpr uint64_t kBlock = 64;         // values per scale (nf4)
  static constexpr uint64_t kNestedBlock = 256;  // scales per nested scale
  // Limit of elements that are unpacked at once for a product.
  static constexpr int64_t kMostUnpacked = int64_t{4} << 20;

  uint64_t values() const { return static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns); }
  // Number of fp32 scales: of rows, blocks or (nested) blocks of scales. At offset 0.
  uint64_t scales() const;
  uint64_t blocks() const { return (values() + kBlock - 1) / kBlock; }
  // Nested: the fp32 mean, then one byte per block.
  uint64_t mean_offset() const { return sizeof(float) * scales(); }
  uint64_t block_codes_offset() const { return mean_offset() + sizeof(float); }
  uint64_t codes_offset() const;
  uint64_t codes_bytes() const;
  uint64_t bytes() const;  // in total, a multiple of 4
};

// Packs a matrix whose rows come one after another.
class MatrixPacker {
 public:
  // Rows of each Add but the last: whole blocks, whatever the columns.
  static constexpr int64_t kRows = PackedShape::kBlock;

  // `packed` has shape.bytes(), and outlives the packer.
  MatrixPacker(const PackedShape& shape, char* packed);

  // Adds the next `rows` rows, a multiple of kRows except for the last ones. All values are finite.
  void Add(const float* values, int64_t rows);
  // REQUIRES: all rows have been added.
  void Finish();

 private:
  void AddInt8(const float* values, int64_t rows);
  void AddNf4(const float* values, uint64_t first, uint64_t count);
  void PackScales();

  const PackedShape shape_;
  char* const packed_;
  int64_t rows_ = 0;
  std::vector<float> largest_;  // of nf4's blocks
};

// A part of a matrix: rows [row, row + rows), columns [column, column + columns).
struct MatrixPart {
  int64_t row = 0, rows = 0;
  int64_t column = 0, columns = 0;
};

// Writes the part's values to `out`, row-major and contiguous, in fp32 or rounded from it to
// `dtype`.
void Unpack(const PackedShape& shape, const char* packed, const MatrixPart& part, DType dtype,
            void* out);

// The sixteen values of nf4, and the 256 values of its scales' code.
const float* Nf4Values();
const float* DynamicMap();

}  // namespace spillway
