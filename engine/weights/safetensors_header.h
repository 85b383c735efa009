// The header of a safetensors file: its content, and every rule of its format.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/numeric/dtype.h"

namespace spillway {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;            // as the file spells it: "F32", "BF16", "I64", ...
  std::vector<uint64_t> shape;  // empty: a scalar
  uint64_t elements = 0;        // the product of the shape
  uint64_t offset_bytes = 0;    // from the start of the file
  uint64_t size_bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

// Largest length of the header.
inline constexpr uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;

// Bits of one element; 0 for a dtype that the format does not have.
int SafetensorsDtypeBits(absl::string_view dtype);

// Returns "F32", "BF16" or "F16".
absl::string_view SafetensorsDtypeName(DType dtype);

// `json` is the header (without its 8-byte length) of a file of `file_size_bytes`. kDataLoss (wrong
// bytes) with the rule that is broken; the caller adds the file's name.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         uint64_t file_size_bytes);

}  // namespace spillway
