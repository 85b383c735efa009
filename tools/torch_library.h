// Finds LibTorch and loads it, so that the program needs no path of it compiled in and an
// installed copy can be moved. Main thread.
//
// The compute library needs libtorch_cpu.so and is linked without a path to it. It is loaded first,
// by absolute path; the dynamic linker then resolves the compute library's need by the soname.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace spillway {

// The first of these that holds LibTorch (lib/libtorch_cpu.so), links resolved:
//   1. $SPILLWAY_TORCH, whatever its version;
//   2. LIBRARY_FOLDER/torch, beside the compute library;
//   3. $XDG_DATA_HOME/spillway/torch, or ~/.local/share/spillway/torch;
//   4. /usr/local/lib/spillway/torch.
// The last three count only with the version that this program was built with.
// kInvalidArgument if SPILLWAY_TORCH is set and holds none; kUnavailable, with the remedy,
// if no place has one.
absl::StatusOr<std::string> FindTorch(const std::string& library_folder);

// Where `spillway setup` puts LibTorch's folder `torch` by default: the folder of place 4 for root
// and of place 3 for others; "" if HOME is not set.
std::string TorchParent();

// Loads LibTorch of that folder and the CUDA runtime's libraries that lie in its runtime/
// (tools/libtorch.sh). They stay loaded.
absl::Status LoadTorch(const std::string& torch);

}  // namespace spillway
