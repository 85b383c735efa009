// spillway setup: installs LibTorch for an installed Spillway.
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"
#include "tools/build_info.h"
#include "tools/commands.h"
#include "tools/compute_library.h"
#include "tools/torch_library.h"

namespace spillway {
namespace {

struct SetupFlags {
  std::string prefix;  // "": the place of this user
  std::string torch;   // an installed one to be linked to
  bool fetch = false;  // in any case
};

// Becomes the script that fetches, and returns only if it cannot.
absl::Status RunScript(const std::string& script, const SetupFlags& flags,
                       const std::string& parent) {
  std::vector<std::string> words = {"bash", script, "--into", parent, "--version", TorchVersion()};
  if (!flags.torch.empty()) words.insert(words.end(), {"--from", flags.torch});
  if (flags.fetch) words.push_back("--fetch");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  return ErrnoStatus(errno, "start bash");
}

CommandOutcome RunSetup(const SetupFlags& flags) {
  if (flags.fetch && !flags.torch.empty()) {
    return {absl::InvalidArgumentError(
        "--torch links to an installed LibTorch and --fetch fetches one: give one of the two")};
  }
  const auto files = FindComputeLibrary();
  if (!files.ok()) return {files.status()};
  const bool asked = flags.fetch || !flags.torch.empty() || !flags.prefix.empty();
  if (!files->torch.empty() && !asked) {
    LogInfo(absl::StrCat("LibTorch ", TorchVersion(), " is in ", files->torch, ": nothing to do"));
    return {absl::OkStatus()};
  }
  const std::string script = files->folder() + "/setup_torch";
  if (access(script.c_str(), R_OK) != 0) {
    return {absl::UnavailableError(absl::StrCat(script,
                                                " is missing, so this program is not an installed "
                                                "one: in a clone tools/setup fetches LibTorch"))};
  }
  if (BuiltWithCuda() && flags.torch.empty()) {
    return {absl::UnavailableError(
        absl::StrCat("this program computes on GPUs, and LibTorch for that comes with some twenty "
                     "packages: install PyTorch (pip "
                     "install torch==",
                     TorchVersion(), "), and name its folder site-packages/torch with --torch"))};
  }
  std::string parent = TorchParent();
  if (!flags.prefix.empty()) {
    parent = FileSystem::Real().Resolve(flags.prefix) + "/lib/spillway";
    if (parent != files->folder() && parent != TorchParent()) {
      LogInfo(absl::StrCat("this program does not look there: set SPILLWAY_TORCH=", parent,
                           "/torch for it"));
    }
  }
  if (parent.empty()) {
    return {
        absl::InvalidArgumentError("HOME is not set, so there is no folder of this user's: say "
                                   "with --prefix DIR where LibTorch goes")};
  }
  return {RunScript(script, flags, parent)};
}

}  // namespace

void AddSetupCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command =
      app.add_subcommand("setup", "Fetch LibTorch, which an installed Spillway computes with");
  auto flags = std::make_shared<SetupFlags>();
  command
      ->add_option("--prefix", flags->prefix,
                   "install into DIR/lib/spillway/torch (root: DIR is /usr/local; others: "
                   "~/.local/share/spillway/torch)")
      ->type_name("DIR");
  command
      ->add_option("--torch", flags->torch,
                   "link to an installed LibTorch: a folder with lib/, of PyTorch "
                   "site-packages/torch")
      ->type_name("DIR");
  command->add_flag(
      "--fetch", flags->fetch,
      "fetch it even if LibTorch is there, or python3 has a PyTorch of the same version");
  command->footer(
      "Fetches the PyTorch wheel with pip (531 MB; about 460 MB stay), checks its digest and "
      "unpacks the "
      "libraries. A PyTorch of the same version that python3 has is linked to instead. Does "
      "nothing if LibTorch is there.\n"
      "Example:\n  spillway setup");
  command->callback([run, flags] { *run = [flags] { return RunSetup(*flags); }; });
}

}  // namespace spillway
