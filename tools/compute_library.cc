#include "tools/compute_library.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

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

// LibTorch registers its operators while it is loaded, in 56 MiB of small pieces of the heap. Here
// the heap gets them from the kernel beforehand, at once and by huge pages where the kernel has
// any, and loading takes a seventh less time.
void* OpenByHugePages(const std::string& path) {
  constexpr size_t kRegisteredBytes = 60 << 20, kHugePageBytes = 2 << 20;
  constexpr size_t kUsualPadBytes = 128 << 10;  // glibc's own
  constexpr size_t kMoreThanTrimmed = 64 << 10;
  malloc_trim(0);  // so that the next piece makes the heap grow
  const auto begin = reinterpret_cast<uintptr_t>(sbrk(0));
  mallopt(M_TOP_PAD, kRegisteredBytes);
  void* const volatile grows = std::malloc(kMoreThanTrimmed);
  std::free(grows);
  const uintptr_t first = (begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const auto end = reinterpret_cast<uintptr_t>(sbrk(0));
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
  // What our library calls is resolved now all the same (-z now), what LibTorch calls when it does.
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  mallopt(M_TOP_PAD, kUsualPadBytes);
  return library;
}

absl::StatusOr<ComputeLibrary*> Load() {
  RETURN_IF_ERROR(FindComputeLibrary());
  RETURN_IF_ERROR(CheckAddressesForLibrary());
  SetOpenMpWaits();
  SetMklRepeats();
  const std::string path = LibraryPath();
  void* const library = OpenByHugePages(path);
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
