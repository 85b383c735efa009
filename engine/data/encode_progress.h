// Progress of encoding texts, shown if it takes more than a moment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/progress.h"
#include "io/base/clock.h"

namespace spillway {

// Silent for the first seconds. One thread.
class EncodeProgress {
 public:
  // `label` starts every line; the count after it is in megabytes.
  EncodeProgress(std::string label, uint64_t total_bytes);

  void Update(uint64_t done_bytes);

 private:
  const std::string label_;
  const uint64_t total_bytes_;
  const double began_ = MonotonicSeconds();
  std::optional<Progress> progress_;
  uint64_t shown_megabytes_ = 0;
};

}  // namespace spillway
