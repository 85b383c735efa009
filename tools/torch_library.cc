#include "tools/torch_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "io/file_system.h"
#include "tools/build_info.h"

namespace spillway {
namespace {

constexpr char kSystemParent[] = "/usr/local/lib/spillway";
constexpr char kTorchFolder[] = "/torch";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "" if HOME is not set. The XDG standard requires absolute paths, and that others are ignored.
std::string UserParent() {
  const std::string data = Variable("XDG_DATA_HOME"), home = Variable("HOME");
  if (!data.empty() && data[0] == '/') return data + "/spillway";
  if (!home.empty() && home[0] == '/') return home + "/.local/share/spillway";
  return "";
}

std::string MainLibrary() { return BuiltWithCuda() ? "libtorch_cuda.so" : "libtorch_cpu.so"; }

bool HoldsTorch(const std::string& folder) {
  return access(absl::StrCat(folder, "/lib/", MainLibrary()).c_str(), R_OK) == 0;
}

// "2.11.0" from a wheel's version.py ("__version__ = '2.11.0+cu130'") or an archive's
// build-version; "" if neither has it.
std::string VersionOf(const std::string& folder) {
  for (const char* name : {"/version.py", "/build-version"}) {
    const auto text = FileSystem::Real().ReadSmallFile(folder + name);
    if (!text.ok()) continue;
    const size_t begin = text->find_first_of("0123456789");
    if (begin == std::string::npos) continue;
    return text->substr(begin, text->find_first_not_of("0123456789.", begin) - begin);
  }
  return "";
}

absl::Status Open(const std::string& path) {
  // LibTorch's calls are resolved lazily, which makes a start tens of milliseconds faster.
  if (dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) return absl::OkStatus();
  return absl::UnavailableError(dlerror());
}

}  // namespace

absl::StatusOr<std::string> FindTorch(const std::string& library_folder) {
  if (const std::string said = Variable("SPILLWAY_TORCH"); !said.empty()) {
    if (HoldsTorch(said)) return FileSystem::Real().Resolve(said);
    return absl::InvalidArgumentError(
        absl::StrCat("SPILLWAY_TORCH=", said, " is no LibTorch: it has no lib/", MainLibrary(),
                     "; of an installed PyTorch it is the folder site-packages/torch"));
  }
  std::vector<std::string> parents = {library_folder};
  if (const std::string user = UserParent(); !user.empty()) parents.push_back(user);
  parents.push_back(kSystemParent);
  std::vector<std::string> places;
  for (const std::string& parent : parents) {
    const std::string place = parent + kTorchFolder;
    if (!HoldsTorch(place)) {
      places.push_back(place);
      continue;
    }
    const std::string version = VersionOf(place);
    if (version == TorchVersion()) return FileSystem::Real().Resolve(place);
    places.push_back(absl::StrCat(place, " (which is LibTorch ",
                                  version.empty() ? "of an unknown version" : version, ")"));
  }
  return absl::UnavailableError(absl::StrCat(
      "LibTorch ", TorchVersion(),
      ", which models are computed with, is not installed: run `spillway setup`, or name "
      "the folder of an installed one in SPILLWAY_TORCH (looked in ",
      absl::StrJoin(places, ", "), ")"));
}

std::string TorchParent() { return geteuid() == 0 ? kSystemParent : UserParent(); }

absl::Status LoadTorch(const std::string& torch) {
  std::vector<std::string> files;
  const std::string runtime = torch + "/runtime";
  if (const auto names = FileSystem::Real().List(runtime); names.ok()) {
    for (const std::string& name : *names) {
      if (absl::StrContains(name, ".so")) files.push_back(absl::StrCat(runtime, "/", name));
    }
  }
  files.push_back(torch + "/lib/libtorch_cpu.so");
  if (BuiltWithCuda()) files.push_back(torch + "/lib/libtorch_cuda.so");
  for (const std::string& file : files) {
    if (const absl::Status opened = Open(file); !opened.ok()) {
      return absl::UnavailableError(
          absl::StrCat("LibTorch in ", torch, " does not load: ", opened.message(),
                       "; `spillway setup --fetch` installs one that does"));
    }
  }
  return absl::OkStatus();
}

}  // namespace spillway
