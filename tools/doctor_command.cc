// spillway doctor: one page on what this machine offers.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "engine/base/print_json.h"
#include "engine/inspect/doctor.h"
#include "engine/inspect/doctor_page.h"
#include "engine/machine/process_limits.h"
#include "engine/machine/swap_paths.h"
#include "tools/build_info.h"
#include "tools/commands.h"
#include "tools/compute_library.h"
#include "tools/device_flag.h"

namespace spillway {
namespace {

CommandOutcome RunDoctor(const std::string& swap, const std::string& device, bool as_json) {
  // A word that is none of --device's is the caller's mistake, and nothing about this machine.
  if (const auto wish = ParseDeviceWish(device); !wish.ok()) return {wish.status()};
  std::vector<std::string> paths = absl::StrSplit(SwapPathOfRank(swap, 0), ',', absl::SkipEmpty());
  // Without --swap a run's files go to OUTPUT, most likely somewhere below here.
  if (paths.empty()) paths.push_back(".");
  MachineFacts facts = ProbeMachine(paths);
  facts.torch_version = TorchVersion();
  const auto files = FindComputeLibrary();
  facts.compute_library = files.status();
  if (files.ok()) {
    facts.torch_folder = files->torch;
    facts.compute_library = CheckAddressesForLibrary();
  }
  // Whether the dynamic linker finds a LibTorch of its own shows when it is loaded.
  if (facts.compute_library.ok() && (BuiltWithCuda() || facts.torch_folder.empty())) {
    const auto compute = OpenComputeLibrary();
    facts.compute_library = compute.status();
    facts.torch_has_cuda = BuiltWithCuda() && compute.ok() && (*compute)->SeesCuda();
  }
  // A dtype that every GPU computes in: bf16 is refused where it is asked for.
  facts.device = ChooseDeviceHere(device, DType::kFloat32, /*device_memory_bytes=*/0);
  const std::vector<DoctorLine> lines = Diagnose(facts);
  if (as_json) {
    PrintJson(DoctorJson(facts, lines));
  } else {
    std::fputs(DoctorPage(lines).c_str(), stdout);
  }
  return {absl::OkStatus(), DoctorExitCode(lines)};
}

}  // namespace

void AddDoctorCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command =
      app.add_subcommand("doctor", "Show what this machine offers, and what to do about the rest");
  auto swap = std::make_shared<std::string>();
  auto device = std::make_shared<std::string>("auto");
  auto as_json = std::make_shared<bool>(false);
  command
      ->add_option("--swap", *swap, "directories to try, as train's --swap (the current directory)")
      ->type_name("PATH[,PATH...]");
  command->add_option("--device", *device, "as train's (auto)")->type_name("auto|cpu|cuda");
  command->add_flag("--json", *as_json, "one JSON object on stdout");
  command->footer(
      "Leaves nothing behind. Exit code 1 when a run with these paths, on this device, would "
      "fail.\n"
      "Example:\n  spillway doctor --swap /nvme0,/nvme1");
  command->callback([run, swap, device, as_json] {
    *run = [swap, device, as_json] { return RunDoctor(*swap, *device, *as_json); };
  });
}

}  // namespace spillway
