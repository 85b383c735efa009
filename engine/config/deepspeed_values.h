// Values as DeepSpeed's parser and its typed blocks (pydantic) take them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "nlohmann/json.hpp"

namespace spillway {

// A whole number, also written as 5e8 or 2.0; with `strings` also as "16", which
// DeepSpeed's typed blocks take.
std::optional<int64_t> AsInteger(const nlohmann::json& value, bool strings = false);

// A finite number.
std::optional<double> AsNumber(const nlohmann::json& value, bool strings = false);

// true and false; "true", "yes", "on", "t", "y" and "1" in any case, and their opposites;
// 1 and 0.
std::optional<bool> AsBoolean(const nlohmann::json& value);

// For a message: one line, at most 60 bytes.
std::string ShownJson(const nlohmann::json& value);

}  // namespace spillway
