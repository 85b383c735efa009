// A tensor that forwards change and updates do not, such as BatchNorm's running statistics. It is
// small, and kept with the run's other small state. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace spillway {

struct StateBuffer {
  std::string name;            // unique among parameters and buffers
  std::vector<int64_t> shape;  // empty: a scalar
  std::vector<float> values;   // row-major
  bool whole = false;          // whole numbers, stored as int64 in files

  friend bool operator==(const StateBuffer&, const StateBuffer&) = default;
};

// Values are written as the integers of their bits: exact, and NaN and infinity fit into JSON.
nlohmann::json ToJson(const std::vector<StateBuffer>& buffers);
// kDataLoss for JSON that ToJson does not write.
absl::StatusOr<std::vector<StateBuffer>> StateBuffersFromJson(const nlohmann::json& json);

}  // namespace spillway
