// Safetensors files made by hand, good and bad.
#pragma once

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace spillway {

// length, header, data.
inline std::string SafetensorsBytes(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + data;
}

inline std::string Entry(const std::string& name, const std::string& dtype,
                         const std::string& shape, uint64_t begin, uint64_t end) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                      ",\"data_offsets\":[", begin, ",", end, "]}");
}

}  // namespace spillway
