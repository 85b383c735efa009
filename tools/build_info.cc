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

std::string VersionText() {
  return absl::StrCat("spillway ", Version(), " (", BuildCommit(), "; ", BuildKind(), ")");
}

void SetCommandLine(std::vector<std::string> arguments) { CommandLine() = std::move(arguments); }

RunOrigin ThisRunOrigin() { return {Version(), BuildCommit(), BuildKind(), CommandLine()}; }

}  // namespace spillway
