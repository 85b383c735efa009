// Prints JSON: the output of --json, and lines of files.
#pragma once

#include <cstdio>
#include <string>

#include "nlohmann/json.hpp"

namespace spillway {

// JSON on one line. Invalid UTF-8, as in a path, becomes U+FFFD.
template <typename Json>
std::string JsonLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Prints JSON to stdout.
template <typename Json>
void PrintJson(const Json& json) {
  std::puts(JsonLine(json).c_str());
}

}  // namespace spillway
