// spillway tune: the I/O settings that suit these disks, kept in the machine's profile.
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/flag_value.h"
#include "engine/base/print_json.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/estimate/profile_file.h"
#include "engine/machine/block_device.h"
#include "engine/tuning/tune.h"
#include "engine/tuning/tune_output.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/base/terminal.h"
#include "tools/commands.h"
#include "tools/disk_flags.h"

namespace spillway {
namespace {

struct TuneFlags {
  std::string swap;
  std::optional<std::string> seconds, size;
  bool quick = false, as_json = false;
};

constexpr double kSeconds = 60, kQuickSeconds = 15;
constexpr uint64_t kQuickBytes = uint64_t{256} << 20;
constexpr uint64_t kLeastBytes = uint64_t{8} << 20;

absl::StatusOr<TuneOptions> OptionsOf(const TuneFlags& flags) {
  TuneOptions options;
  ASSIGN_OR_RETURN(options.paths, MeasuredPathsFlag("--swap", flags.swap));
  options.quick = flags.quick;
  options.seconds = flags.quick ? kQuickSeconds : kSeconds;
  if (flags.quick) options.file_bytes = kQuickBytes;
  if (flags.seconds) {
    ASSIGN_OR_RETURN(options.seconds, NumberFlag("--seconds", *flags.seconds, 1, 3600));
  }
  if (flags.size) {
    ASSIGN_OR_RETURN(options.file_bytes, SizeFlag("--size", *flags.size));
    if (options.file_bytes < kLeastBytes) {
      return BadFlagValue("--size", *flags.size, "at least 8MiB");
    }
  }
  return options;
}

absl::Status KeepTuning(const TuneResult& result, const ProfilePlace& place) {
  const MachineIdentity machine = ThisMachine();
  std::vector<BlockDevice> devices;
  for (const TunePath& path : result.paths) devices.push_back(path.device);
  MachineProfile profile;
  profile.SetTuned(DeviceKey(devices), result.Entry(machine, time(nullptr)));
  const absl::Status status = SaveProfile(place.path, machine, profile);
  if (status.ok()) return status;
  return absl::UnavailableError(absl::StrCat("the tuning is not kept: ", status.message()));
}

CommandOutcome RunTune(const TuneFlags& flags) {
  auto options = OptionsOf(flags);
  if (!options.ok()) return {options.status()};
  const ProfilePlace place = FindProfile();
  if (const std::string problem = LoadProfile(place.path, ThisMachine()).problem;
      !problem.empty()) {
    LogWarning(problem);
  }
  StopSignal signals;
  options->stopped = [] { return StopSignal::received() != 0; };
  absl::StatusOr<TuneResult> result;
  {
    Progress progress("tuning", 100);
    options->progress = [&](double fraction, const std::string& what) {
      progress.Update(static_cast<int64_t>(fraction * 100), {{what}});
    };
    result = Tune(*options);
  }
  if (absl::IsCancelled(result.status())) {
    return {
        absl::CancelledError(absl::StrCat("stopped by ", StopSignal::Name(StopSignal::received()),
                                          ": nothing is kept, and nothing left behind"))};
  }
  if (!result.ok()) return {result.status()};
  const absl::Status kept = place.off ? absl::OkStatus() : KeepTuning(*result, place);
  if (place.off) LogWarning("SPILLWAY_PROFILE=off: the tuning is shown, and not kept");
  const bool is_kept = kept.ok() && !place.off;
  if (flags.as_json) {
    nlohmann::json json = TuneJson(*result);
    json["profile"] = is_kept ? nlohmann::json(place.path) : nlohmann::json(nullptr);
    PrintJson(json);
  } else {
    std::fputs(ShownText(TuneText(*result), ShownLines::kAll).c_str(), stdout);
    if (is_kept) {
      std::printf("kept in %s; used by every run on these paths for 30 days\n",
                  ShownText(place.path).c_str());
    }
  }
  return {kept};
}

}  // namespace

void AddTuneCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command =
      app.add_subcommand("tune", "Find the I/O settings that suit the disks, and keep them");
  auto flags = std::make_shared<TuneFlags>();
  command->add_option("--swap", flags->swap, "directories as train's --swap: tuned together")
      ->type_name("PATH[,PATH...]")
      ->required();
  command->add_flag("--quick", flags->quick, "fewer candidates, 15 s instead of a minute");
  command->add_option("--seconds", flags->seconds, "about how long (60; --quick: 15)")
      ->type_name("NUMBER");
  command->add_option("--size", flags->size, "of all test files (1GiB; --quick: 256MiB)")
      ->type_name("SIZE");
  command->add_flag("--json", flags->as_json, "one JSON object on stdout");
  command->footer(
      "Later runs with these --swap paths use what was found, unless a flag or the config's aio "
      "block says otherwise. Leaves no files on the paths.\n"
      "Example:\n  spillway tune --swap /nvme0,/nvme1");
  command->callback([run, flags] { *run = [flags] { return RunTune(*flags); }; });
}

}  // namespace spillway
