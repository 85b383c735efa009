#include "tools/compute_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "engine/machine/process_limits.h"
#include "engine/machine/process_setup.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr char kFileName[] = "libspillway_compute.so";

std::string LibraryPath() {
  const std::string program = ProgramPath();
  return program.substr(0, program.rfind('/') + 1) + kFileName;
}

absl::StatusOr<ComputeLibrary*> Load() {
  RETURN_IF_ERROR(FindComputeLibrary());
  RETURN_IF_ERROR(CheckAddressesForLibrary());
  SetOpenMpWaits();
  SetMklRepeats();
  const std::string path = LibraryPath();
  // What it calls is resolved now all the same (-z now), what LibTorch calls when it does.
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "what computes does not load: ", dlerror(), "; build it where LibTorch is (tools/build), ",
        "or name LibTorch's folder of libraries in LD_LIBRARY_PATH"));
  }
  const auto open = reinterpret_cast<decltype(&spillway_compute_library)>(
      dlsym(library, "spillway_compute_library"));
  ComputeLibrary* const compute = open == nullptr ? nullptr : open(SPILLWAY_VERSION);
  if (compute == nullptr) {
    return absl::UnavailableError(
        absl::StrCat(path, " is not of spillway " SPILLWAY_VERSION,
                     ": put there the one that was built with this program"));
  }
  return compute;
}

}  // namespace

absl::Status FindComputeLibrary() {
  const std::string path = LibraryPath();
  if (access(path.c_str(), R_OK) == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("what computes is not beside the program: ", path,
                   " is missing; tools/build makes both, and they are moved together"));
}

absl::StatusOr<ComputeLibrary*> OpenComputeLibrary() {
  static const absl::StatusOr<ComputeLibrary*> opened = Load();
  return opened;
}

#ifdef SPILLWAY_HAS_CUDA
bool BuiltWithCuda() { return true; }
#else
bool BuiltWithCuda() { return false; }
#endif

}  // namespace spillway
