// How much data there is to learn from, or to evaluate on. Plain values.
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

struct DatasetSize {
  std::string unit = "samples";  // what its samples are: "windows", "texts", "pictures", ...
  int64_t samples = 0;           // 0: there is no such data, or nobody has said
  int64_t tokens = 0;            // that the model reads of all of them; 0: it reads no tokens
  int64_t labels = 0;            // that count in the loss; 0: not counted
};

}  // namespace spillway
