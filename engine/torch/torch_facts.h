// Which LibTorch the program runs with.
#pragma once

#include <string>

namespace spillway {

struct TorchFacts {
  std::string version;    // "2.11.0"
  bool has_cuda = false;  // its CUDA libraries are linked, and it sees a device
};

TorchFacts DescribeTorch();

}  // namespace spillway
