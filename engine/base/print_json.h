// Answers as JSON: what --json prints, and the lines of files.
#pragma once

#include <cstdio>
#include <string>

#include "nlohmann/json.hpp"

namespace spillway {

// On one line. Bytes that are no UTF-8, as a path may have them, are U+FFFD.
template <typename Json>
std::string JsonLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// To stdout.
template <typename Json>
void PrintJson(const Json& json) {
  std::puts(JsonLine(json).c_str());
}

}  // namespace spillway
