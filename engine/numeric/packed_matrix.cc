#include "engine/numeric/packed_matrix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "engine/numeric/simd_dispatch.h"
#include "engine/numeric/update_kind.h"
#include "io/base/check.h"
#include "io/base/enum_name.h"

namespace spillway {
namespace {

constexpr uint64_t kBlockValues = PackedShape::kBlock;
constexpr uint64_t kNestedBlock = PackedShape::kNestedBlock;
constexpr PackedFormat kFormats[] = {PackedFormat::kNone, PackedFormat::kInt8, PackedFormat::kNf4,
                                     PackedFormat::kNf4Nested};

constexpr uint8_t kNf4Zero = 7;  // the code of 0

// Quantiles of the normal distribution (Dettmers et al., QLoRA, 2023).
constexpr float kNf4[16] = {-0x1p+0f,        -0x1.647362p-1f, -0x1.0cd66p-1f,  -0x1.946540p-2f,
                            -0x1.23449ap-2f, -0x1.7a6a7ep-3f, -0x1.74f0e2p-4f, 0.0f,
                            0x1.45f5fep-4f,  0x1.4995c6p-3f,  0x1.f809bap-3f,  0x1.5a0674p-2f,
                            0x1.c3497p-2f,   0x1.200f56p-1f,  0x1.722766p-1f,  0x1p+0f};

// Seven decades of evenly spaced values, each with twice as many as the one before (Dettmers, 8-bit
// approximations for parallelism in deep learning, 2015), rounded like torch.linspace and its
// products.
std::array<float, 256> MakeDynamicMap() {
  std::array<float, 256> map{};
  size_t filled = 0;
  for (int bits = 0; bits < 7; ++bits) {
    const int count = 1 << bits;
    const float step = (1.0f - 0.1f) / static_cast<float>(count);
    std::vector<float> bounds;
    for (int i = 0; i <= count; ++i) {
      const int from_end = count - i;
      bounds.push_back(i < (count + 1) / 2 ? std::fma(step, static_cast<float>(i), 0.1f)
                                           : std::fma(-step, static_cast<float>(from_end), 1.0f));
    }
    const auto scale = static_cast<float>(std::pow(10.0, bits - 6));
    for (int i = 0; i < count; ++i) {
      map[filled++] = scale * ((bounds[i] + bounds[i + 1]) / 2);
      map[filled] = -map[filled - 1];
      ++filled;
    }
  }
  map[filled++] = 0;
  map[filled++] = 1;
  std::sort(map.begin(), map.end());
  return map;
}

// The code nearest to one of 65,536 evenly spaced values of [-1, 1].
std::vector<uint8_t> MakeNearestCodes() {
  const float* const map = DynamicMap();
  std::vector<uint8_t> nearest(65536);
  uint8_t code = 0;
  for (uint32_t i = 0; i < nearest.size(); ++i) {
    const float value = static_cast<float>(i) * 2 / 65535 - 1;
    while (code < 255 && value > (map[code] + map[code + 1]) / 2) ++code;
    nearest[i] = code;
  }
  return nearest;
}

const std::vector<uint8_t>& NearestCodes() {
  static const std::vector<uint8_t>& codes = *new std::vector<uint8_t>(MakeNearestCodes());
  return codes;
}

float Largest(const float* values, uint64_t count) {
  float largest = 0;
  for (uint64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

float Inverse(float largest) { return 1 / std::max(largest, 1e-38f); }

// The code of nf4 nearest to each value times `inverse`.
struct Nf4Codes {
  static SPILLWAY_ALWAYS_INLINE void Run(const float* values, uint64_t count, float inverse,
                                         uint8_t* codes) {
    float bounds[15];
    for (int k = 0; k < 15; ++k) bounds[k] = (kNf4[k] + kNf4[k + 1]) / 2;
    for (uint64_t i = 0; i < count; ++i) {
      const float scaled = values[i] * inverse;
      int code = 0;
      for (int k = 0; k < 15; ++k) code += scaled > bounds[k];
      codes[i] = static_cast<uint8_t>(code);
    }
  }
};

template <DType kDType>
using Stored = typename Number<kDType>::Stored;

// Looks up a whole block of values in a table of sixteen.
template <typename T>
SPILLWAY_ALWAYS_INLINE void LookUpBlock(const T (&values)[16], const uint8_t* codes,
                                        T* __restrict out) {
  for (uint64_t i = 0; i < kBlockValues / 2; ++i) {
    out[2 * i] = values[codes[i] >> 4];
    out[2 * i + 1] = values[codes[i] & 15];
  }
}

#if !defined(__clang__)  // which has no __builtin_shuffle

using Bytes = uint8_t __attribute__((vector_size(16)));
using Words = uint16_t __attribute__((vector_size(32)));

// LookUpBlock for 16-bit values: looks up low and high bytes separately, sixteen at once.
SPILLWAY_ALWAYS_INLINE void LookUpBlock(const uint16_t (&values)[16], const uint8_t* codes,
                                        uint16_t* __restrict out) {
  constexpr Bytes kFirst = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
  constexpr Bytes kSecond = kFirst + 8;
  Words words;
  std::memcpy(&words, values, sizeof(words));
  const Bytes low = __builtin_convertvector(words, Bytes);
  const Bytes high = __builtin_convertvector(words >> 8, Bytes);
  for (uint64_t i = 0; i < kBlockValues / 2; i += sizeof(Bytes)) {
    Bytes pairs;
    std::memcpy(&pairs, codes + i, sizeof(pairs));
    const Bytes first = pairs >> 4, second = pairs & 15;
    for (const Bytes order : {kFirst, kSecond}) {
      const Bytes index = __builtin_shuffle(first, second, order);
      const Bytes lows = __builtin_shuffle(low, index), highs = __builtin_shuffle(high, index);
      for (const Bytes half : {kFirst, kSecond}) {
        const Bytes both = __builtin_shuffle(lows, highs, half);
        std::memcpy(out, &both, sizeof(both));
        out += sizeof(both) / sizeof(*out);
      }
    }
  }
}

#endif

// Unpacks values [first, first + count) of an nf4 matrix; `scales` start at the first value's
// block.
template <DType kDType>
struct UnpackNf4 {
  static SPILLWAY_ALWAYS_INLINE void Run(const uint8_t* codes, const float* scales, uint64_t first,
                                         uint64_t count, Stored<kDType>* __restrict out) {
    const uint64_t end = first + count;
    while (first < end) {
      const uint64_t block_end = std::min(end, (first / kBlockValues + 1) * kBlockValues);
      Stored<kDType> values[16];
      const float scale = *scales++;
      for (int k = 0; k < 16; ++k) values[k] = Number<kDType>::FromFloat(kNf4[k] * scale);
      if (block_end - first == kBlockValues) {
        LookUpBlock(values, codes + first / 2, out);
        out += kBlockValues;
        first = block_end;
        continue;
      }
      if (first % 2 == 1) {
        *out++ = values[codes[first / 2] & 15];
        ++first;
      }
      for (; first + 1 < block_end; first += 2, out += 2) {
        const uint8_t both = codes[first / 2];
        out[0] = values[both >> 4];
        out[1] = values[both & 15];
      }
      if (first < block_end) {
        *out++ = values[codes[first / 2] >> 4];
        ++first;
      }
    }
  }
};

// The reciprocal of 127 that bitsandbytes multiplies by.
constexpr float kOf127 = 7.874015718698502e-3f;

template <DType kDType>
struct UnpackInt8 {
  static SPILLWAY_ALWAYS_INLINE void Run(const int8_t* codes, float scale, uint64_t count,
                                         Stored<kDType>* __restrict out) {
    for (uint64_t i = 0; i < count; ++i) {
      out[i] = Number<kDType>::FromFloat(static_cast<float>(codes[i]) * scale * kOf127);
    }
  }
};

// Decodes nf4's scales of blocks [first, last].
void UnpackScales(const PackedShape& shape, const char* packed, uint64_t first, uint64_t last,
                  std::vector<float>* scales) {
  const auto* const fp32 = reinterpret_cast<const float*>(packed);
  scales->resize(last + 1 - first);
  if (shape.format == PackedFormat::kNf4) {
    std::copy(fp32 + first, fp32 + last + 1, scales->begin());
    return;
  }
  float mean = 0;
  std::memcpy(&mean, packed + shape.mean_offset(), sizeof(mean));
  const auto* const codes = reinterpret_cast<const uint8_t*>(packed + shape.block_codes_offset());
  const float* const map = DynamicMap();
  for (uint64_t i = first; i <= last; ++i) {
    (*scales)[i - first] = map[codes[i]] * fp32[i / kNestedBlock] + mean;
  }
}

template <DType kDType>
void UnpackRows(const PackedShape& shape, const char* packed, const MatrixPart& part, void* to) {
  const char* const codes = packed + shape.codes_offset();
  const auto columns = static_cast<uint64_t>(part.columns);
  auto* out = static_cast<Stored<kDType>*>(to);
  std::vector<float> scales;
  for (int64_t row = part.row; row < part.row + part.rows; ++row, out += columns) {
    const auto at = static_cast<uint64_t>(row * shape.columns + part.column);
    if (shape.format == PackedFormat::kInt8) {
      RunOnBestSimdTarget<UnpackInt8<kDType>>(reinterpret_cast<const int8_t*>(codes) + at,
                                              reinterpret_cast<const float*>(packed)[row], columns,
                                              out);
      continue;
    }
    UnpackScales(shape, packed, at / kBlockValues, (at + columns - 1) / kBlockValues, &scales);
    RunOnBestSimdTarget<UnpackNf4<kDType>>(reinterpret_cast<const uint8_t*>(codes), scales.data(),
                                           at, columns, out);
  }
}

}  // namespace

absl::string_view PackedFormatName(PackedFormat format) {
  return EnumName(format, {"none", "int8", "nf4 with fp32 scales", "nf4"});
}

std::optional<PackedFormat> PackedFormatFromName(absl::string_view name) {
  for (const PackedFormat format : kFormats) {
    if (name == PackedFormatName(format)) return format;
  }
  return std::nullopt;
}

const float* Nf4Values() { return kNf4; }

const float* DynamicMap() {
  static const std::array<float, 256>& map = *new std::array<float, 256>(MakeDynamicMap());
  return map.data();
}

uint64_t PackedShape::scales() const {
  if (format == PackedFormat::kInt8) return static_cast<uint64_t>(rows);
  if (format == PackedFormat::kNf4) return blocks();
  return (blocks() + kNestedBlock - 1) / kNestedBlock;
}

uint64_t PackedShape::codes_offset() const {
  if (format != PackedFormat::kNf4Nested) return mean_offset();
  return block_codes_offset() + (blocks() + 3) / 4 * 4;
}

uint64_t PackedShape::codes_bytes() const {
  return format == PackedFormat::kInt8 ? values() : (values() + 1) / 2;
}

uint64_t PackedShape::bytes() const { return codes_offset() + (codes_bytes() + 3) / 4 * 4; }

MatrixPacker::MatrixPacker(const PackedShape& shape, char* packed)
    : shape_(shape), packed_(packed) {
  std::memset(packed, 0, shape.bytes());
}

void MatrixPacker::Add(const float* values, int64_t rows) {
  const ScopedExactFloatMode exact;
  if (shape_.format == PackedFormat::kInt8) {
    AddInt8(values, rows);
  } else {
    AddNf4(values, static_cast<uint64_t>(rows_ * shape_.columns),
           static_cast<uint64_t>(rows * shape_.columns));
  }
  rows_ += rows;
}

void MatrixPacker::AddInt8(const float* values, int64_t rows) {
  const auto columns = static_cast<uint64_t>(shape_.columns);
  auto* const scales = reinterpret_cast<float*>(packed_);
  auto* const codes = reinterpret_cast<int8_t*>(packed_ + shape_.codes_offset());
  for (int64_t i = 0; i < rows; ++i, values += columns) {
    const float largest = scales[rows_ + i] = Largest(values, columns);
    if (largest == 0) continue;
    const float inverse = 127.0f / largest;
    int8_t* const row = codes + static_cast<uint64_t>(rows_ + i) * columns;
    for (uint64_t k = 0; k < columns; ++k) {
      row[k] = static_cast<int8_t>(std::nearbyint(values[k] * inverse));
    }
  }
}

void MatrixPacker::AddNf4(const float* values, uint64_t first, uint64_t count) {
  auto* const codes = reinterpret_cast<uint8_t*>(packed_ + shape_.codes_offset());
  uint8_t of_block[kBlockValues];
  for (uint64_t done = 0; done < count; done += kBlockValues) {
    const uint64_t some = std::min(kBlockValues, count - done);
    const float largest = Largest(values + done, some);
    RunOnBestSimdTarget<Nf4Codes>(values + done, some, Inverse(largest), of_block);
    if (some % 2 == 1) of_block[some] = kNf4Zero;
    uint8_t* const to = codes + (first + done) / 2;
    for (uint64_t i = 0; i < some; i += 2) {
      to[i / 2] = static_cast<uint8_t>(of_block[i] << 4 | of_block[i + 1]);
    }
    // bitsandbytes bounds the scale of an incomplete last block.
    largest_.push_back(some == kBlockValues ? largest : std::max(largest, 1e-38f));
  }
}

void MatrixPacker::Finish() {
  SPILLWAY_CHECK(rows_ == shape_.rows);
  if (shape_.format == PackedFormat::kNf4) {
    std::memcpy(packed_, largest_.data(), largest_.size() * sizeof(float));
  } else if (shape_.format == PackedFormat::kNf4Nested) {
    PackScales();
  }
}

void MatrixPacker::PackScales() {
  const ScopedExactFloatMode exact;
  double sum = 0;
  for (const float largest : largest_) sum += largest;
  const auto mean =
      static_cast<float>(sum / static_cast<double>(std::max<size_t>(1, largest_.size())));
  std::memcpy(packed_ + shape_.mean_offset(), &mean, sizeof(mean));
  auto* const scales = reinterpret_cast<float*>(packed_);
  auto* const codes = reinterpret_cast<uint8_t*>(packed_ + shape_.block_codes_offset());
  for (float& largest : largest_) largest -= mean;
  for (uint64_t begin = 0; begin < largest_.size(); begin += kNestedBlock) {
    const uint64_t end = std::min<uint64_t>(begin + kNestedBlock, largest_.size());
    const float scale = Largest(largest_.data() + begin, end - begin);
    scales[begin / kNestedBlock] = scale;
    if (scale == 0) continue;  // any code works; 0 is stored
    const float inverse = 1 / scale;
    for (uint64_t i = begin; i < end; ++i) {
      const float at = (largest_[i] * inverse + 1) * 32767.5f + 0.5f;
      codes[i] = NearestCodes()[static_cast<size_t>(std::clamp(at, 0.0f, 65535.0f))];
    }
  }
}

void Unpack(const PackedShape& shape, const char* packed, const MatrixPart& part, DType dtype,
            void* out) {
  if (part.rows == 0 || part.columns == 0) return;
  const ScopedExactFloatMode exact;
  ForDType(dtype, [&](auto type) { UnpackRows<decltype(type)::kValue>(shape, packed, part, out); });
}

}  // namespace spillway
