#include "tools/compute_library.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/machine/process_limits.h"
#include "engine/machine/process_setup.h"
#include "io/base/status.h"
#include "tools/build_info.h"
#include "tools/torch_library.h"

namespace spillway {
namespace {

constexpr char kFileName[] = "libspillway_compute.so";

absl::StatusOr<std::string> LibraryPath() {
  const std::string program = ProgramPath();
  const std::string folder = program.substr(0, program.rfind('/'));
  const std::string prefix = folder.substr(0, folder.rfind('/'));
  const std::string beside = absl::StrCat(folder, "/", kFileName);
  const std::string installed = absl::StrCat(prefix, "/lib/spillway/", kFileName);
  for (const std::string& path : {beside, installed}) {
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  return absl::UnavailableError(
      absl::StrCat("the library that computes is not where the program looks for it: ", beside,
                   " is missing, and so is ", installed,
                   "; both come from one build, or one package, and are moved together"));
}

// LibTorch registers its operators while it is loaded, in 56 MiB of small pieces of the heap. Here
// the heap gets them from the kernel beforehand, at once and by huge pages where the kernel has
// any, and loading takes a seventh less time.
absl::StatusOr<void*> OpenByHugePages(const ComputeFiles& files) {
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
  const absl::Status torch = files.torch.empty() ? absl::OkStatus() : LoadTorch(files.torch);
  // What our library calls is resolved now all the same (-z now), what LibTorch calls when it does.
  void* const library =
      torch.ok() ? dlopen(files.library.c_str(), RTLD_LAZY | RTLD_LOCAL) : nullptr;
  mallopt(M_TOP_PAD, kUsualPadBytes);
  if (!torch.ok()) return torch;
  if (library != nullptr) return library;
  const std::string reason = dlerror();
  if (files.torch.empty() && absl::StrContains(reason, "cannot open shared object file")) {
    return files.why_no_torch;
  }
  return absl::UnavailableError(absl::StrCat(
      "the library that computes does not load: ", reason, "; it was built with LibTorch ",
      TorchVersion(),
      files.torch.empty() ? ": name that one's folder in SPILLWAY_TORCH"
                          : absl::StrCat(", and was loaded with that of ", files.torch)));
}

absl::StatusOr<ComputeLibrary*> Load() {
  ASSIGN_OR_RETURN(const ComputeFiles files, FindComputeLibrary());
  RETURN_IF_ERROR(CheckAddressesForLibrary());
  SetOpenMpWaits();
  SetMklRepeats();
  ASSIGN_OR_RETURN(void* const library, OpenByHugePages(files));
  const auto open = reinterpret_cast<decltype(&spillway_compute_library)>(
      dlsym(library, "spillway_compute_library"));
  ComputeLibrary* const compute = open == nullptr ? nullptr : open(Version());
  if (compute == nullptr) {
    return absl::UnavailableError(
        absl::StrCat(files.library, " is not of spillway ", Version(),
                     ": put there the one that was built with this program"));
  }
  return compute;
}

}  // namespace

absl::StatusOr<ComputeFiles> FindComputeLibrary() {
  ComputeFiles files;
  ASSIGN_OR_RETURN(files.library, LibraryPath());
  auto torch = FindTorch(files.folder());
  if (torch.ok()) {
    files.torch = *std::move(torch);
  } else if (absl::IsUnavailable(torch.status())) {
    files.why_no_torch = torch.status();
  } else {
    return torch.status();
  }
  return files;
}

absl::StatusOr<ComputeLibrary*> OpenComputeLibrary() {
  static const absl::StatusOr<ComputeLibrary*> opened = Load();
  return opened;
}

}  // namespace spillway
