// Finds and loads LibTorch, so that no path of it is compiled in and an installed copy can be
// moved. Main thread.
//
// The compute library needs libtorch_cpu.so and is linked without a path to it. It is loaded first,
// by absolute path; the dynamic linker then finds it for the compute library by its soname.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace spillway {

// Returns the first of these that has LibTorch (lib/libtorch_cpu.so), with links resolved:
//   1. $SPILLWAY_TORCH, whatever its version;
//   2. LIBRARY_FOLDER/torch, beside the compute library;
//   3. $XDG_DATA_HOME/spillway/torch, or ~/.local/share/spillway/torch;
//   4. /usr/local/lib/spillway/torch.
// The last three count only with the version that this program was built with. kInvalidArgument if
// SPILLWAY_TORCH is set and has none; kUnavailable, with the remedy, if no place has one.
absl::StatusOr<std::string> FindTorch(const std::string& library_folder);

// The parent of LibTorch's folder `torch` in `spillway setup`: of place 4 for root, of place 3 for
// others; "" if HOME is not set.
std::string TorchParent();

// Loads LibTorch from that folder and the CUDA runtime's libraries in its runtime/
// (tools/libtorch.sh). They stay loaded.
absl::Status LoadTorch(const std::string& torch);

}  // namespace spillway
