// Where a run's first weights come from, read piece by piece so that a model is
// never whole in memory.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace spillway {

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Elements [first, first + count) of parameter `name`, row-major, as fp32.
  // Names and shapes have been checked before the first call.
  virtual absl::Status Read(const std::string& name, uint64_t first, uint64_t count,
                            float* out) = 0;

  // Whether they are read from somewhere, so that of several ranks with the same weights one
  // should do it for all. Otherwise each makes its own.
  virtual bool reads_files() const { return true; }
};

}  // namespace spillway
