// What a layer multiplies its input by.
#pragma once

#include <cstdint>

namespace spillway {

enum class LinearWeight : uint8_t {
  kNone,     // something else
  kOutIn,    // [out, in], as torch.nn.Linear has it
  kInOut,    // [in, out], as transformers' Conv1D has it
  kKernels,  // [out, in, height, width], as torch.nn.Conv2d has it
};

}  // namespace spillway
