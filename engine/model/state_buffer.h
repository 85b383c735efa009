// A tensor that forwards change and no update does, such as BatchNorm's running statistics. Small,
// so that it goes where the run's other small state goes. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace spillway {

struct StateBuffer {
  std::string name;            // of no parameter's and no other buffer's
  std::vector<int64_t> shape;  // empty: a scalar
  std::vector<float> values;   // row-major
  bool whole = false;          // whole numbers, which files have as int64

  friend bool operator==(const StateBuffer&, const StateBuffer&) = default;
};

// Values as the numbers that their bits are, so that none is rounded, or is none in JSON.
nlohmann::json ToJson(const std::vector<StateBuffer>& buffers);
// kDataLoss for what ToJson would not have written.
absl::StatusOr<std::vector<StateBuffer>> StateBuffersFromJson(const nlohmann::json& json);

}  // namespace spillway
