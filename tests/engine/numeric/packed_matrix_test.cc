#include "engine/numeric/packed_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tests/engine/numeric/simd_targets.h"

namespace spillway {
namespace {

constexpr PackedFormat kFormats[] = {PackedFormat::kInt8, PackedFormat::kNf4,
                                     PackedFormat::kNf4Nested};

// That of tests/golden/make_packed.py.
std::vector<float> Matrix(int64_t rows, int64_t columns) {
  std::vector<float> values;
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t row = i / columns;
    const auto value = static_cast<float>((i * 40503 + 12345) % 4096 - 2048) * 0x1p-12f;
    values.push_back(row == rows / 2 ? 0 : value * static_cast<float>(1 << row % 3));
  }
  return values;
}

std::vector<char> Packed(const PackedShape& shape, const std::vector<float>& values) {
  std::vector<char> packed(shape.bytes());
  MatrixPacker packer(shape, packed.data());
  for (int64_t row = 0; row < shape.rows; row += MatrixPacker::kRows) {
    packer.Add(values.data() + row * shape.columns,
               std::min(MatrixPacker::kRows, shape.rows - row));
  }
  packer.Finish();
  return packed;
}

std::string Fnv(const void* data, uint64_t size_bytes) {
  uint64_t value = 0xcbf29ce484222325;
  for (uint64_t i = 0; i < size_bytes; ++i) {
    value = (value ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001b3;
  }
  return absl::StrFormat("%016x", value);
}

std::vector<char> Unpacked(const PackedShape& shape, const std::vector<char>& packed,
                           const MatrixPart& part, DType dtype) {
  std::vector<char> values(static_cast<size_t>(part.rows * part.columns) * DTypeBytes(dtype));
  Unpack(shape, packed.data(), part, dtype, values.data());
  return values;
}

class PackedMatrixGolden : public testing::TestWithParam<PackedFormat> {};

TEST_P(PackedMatrixGolden, CodesScalesAndValuesAreBitsandbytes) {
  const PackedFormat format = GetParam();
  const auto golden =
      nlohmann::json::parse(std::ifstream(SPILLWAY_SOURCE_DIR "/tests/golden/packed.json"));
  ForEachSimdTarget([&](SimdTarget target) {
    for (const auto& one : golden) {
      const PackedShape shape{format, one["rows"], one["columns"]};
      SCOPED_TRACE(
          absl::StrFormat("%s, %d x %d", SimdTargetName(target), shape.rows, shape.columns));
      const auto& expected = one[std::string(PackedFormatName(format))];
      const std::vector<char> packed = Packed(shape, Matrix(shape.rows, shape.columns));
      EXPECT_EQ(Fnv(packed.data() + shape.codes_offset(), shape.codes_bytes()), expected["codes"]);
      if (format == PackedFormat::kNf4Nested) {
        EXPECT_EQ(Fnv(packed.data(), sizeof(float) * shape.scales()), expected["nested_absmax"]);
        float mean = 0;
        std::memcpy(&mean, packed.data() + shape.mean_offset(), sizeof(mean));
        EXPECT_EQ(mean, expected["mean"].get<float>());
        EXPECT_EQ(Fnv(packed.data() + shape.block_codes_offset(), shape.blocks()),
                  expected["absmax"]);
      } else {
        EXPECT_EQ(Fnv(packed.data(), sizeof(float) * shape.scales()), expected["absmax"]);
      }
      for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
        const auto values = Unpacked(shape, packed, {0, shape.rows, 0, shape.columns}, dtype);
        EXPECT_EQ(Fnv(values.data(), values.size()),
                  expected["values"][std::string(DTypeName(dtype))]);
      }
    }
  });
}

TEST_P(PackedMatrixGolden, APartIsThatPartOfTheWhole) {
  const PackedShape shape{GetParam(), 70, 33};
  const std::vector<char> packed = Packed(shape, Matrix(70, 33));
  const auto whole = Unpacked(shape, packed, {0, 70, 0, 33}, DType::kBFloat16);
  for (const MatrixPart& part :
       {MatrixPart{0, 1, 0, 33}, MatrixPart{3, 20, 5, 11}, MatrixPart{69, 1, 32, 1},
        MatrixPart{10, 60, 31, 2}, MatrixPart{7, 0, 0, 33}}) {
    const auto some = Unpacked(shape, packed, part, DType::kBFloat16);
    for (int64_t row = 0; row < part.rows; ++row) {
      EXPECT_EQ(std::memcmp(some.data() + 2 * row * part.columns,
                            whole.data() + 2 * ((part.row + row) * 33 + part.column),
                            static_cast<size_t>(2 * part.columns)),
                0)
          << part.row << "+" << row << ", " << part.column;
    }
  }
}

std::string NameOf(const testing::TestParamInfo<PackedFormat>& info) {
  std::string name(PackedFormatName(info.param));
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Formats, PackedMatrixGolden, testing::ValuesIn(kFormats), NameOf);

TEST(PackedMatrix, ItsPartsLieBesideOneAnother) {
  const PackedShape nested{PackedFormat::kNf4Nested, 256, 320};
  EXPECT_EQ(nested.blocks(), 1280);
  EXPECT_EQ(nested.scales(), 5);
  EXPECT_EQ(nested.mean_offset(), 20);
  EXPECT_EQ(nested.codes_offset(), 24 + 1280);
  EXPECT_EQ(nested.bytes(), 24 + 1280 + 256 * 320 / 2);
  const PackedShape odd{PackedFormat::kNf4, 3, 1};
  EXPECT_EQ(odd.bytes(), 4 + 4);
  const PackedShape int8{PackedFormat::kInt8, 3, 5};
  EXPECT_EQ(int8.bytes(), 12 + 16);
}

TEST(PackedMatrix, FormatsAreFoundByTheirNames) {
  for (PackedFormat format : kFormats) {
    EXPECT_EQ(PackedFormatFromName(PackedFormatName(format)), format);
  }
  EXPECT_EQ(PackedFormatFromName("fp4"), std::nullopt);
}

}  // namespace
}  // namespace spillway
