#include "tools/build_info.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

std::vector<std::string>& CommandLine() {
  static std::vector<std::string>& arguments = *new std::vector<std::string>;
  return arguments;
}

}  // namespace

const char* BuildKind() { return SPILLWAY_BUILD_KIND; }

#ifdef SPILLWAY_HAS_CUDA
bool BuiltWithCuda() { return true; }
#else
bool BuiltWithCuda() { return false; }
#endif

const char* TorchVersion() { return SPILLWAY_TORCH_VERSION; }

std::string VersionText() {
  return absl::StrCat("spillway " SPILLWAY_VERSION " (", BuildCommit(), "; ", BuildKind(), ")");
}

void SetCommandLine(std::vector<std::string> arguments) { CommandLine() = std::move(arguments); }

RunOrigin ThisRunOrigin() { return {SPILLWAY_VERSION, BuildCommit(), BuildKind(), CommandLine()}; }

}  // namespace spillway
