// spillway bench swap: rates between every two tiers.
#include "engine/tuning/bench_swap.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/flag_value.h"
#include "engine/base/stop_signal.h"
#include "io/base/status.h"
#include "tools/commands.h"
#include "tools/compute_library.h"
#include "tools/device_flag.h"
#include "tools/disk_flags.h"

namespace spillway {
namespace {

struct SwapBenchFlags {
  std::string swap;
  DiskFlags disk;
  std::string device = "auto";
  std::optional<std::string> size, workers, seconds;
  bool as_json = false;
};

// In flight at most: memory that the measurement takes.
constexpr uint64_t kMostBufferBytes = uint64_t{1} << 30;

absl::StatusOr<SwapBenchOptions> ReadSwapBenchOptions(const SwapBenchFlags& flags) {
  SwapBenchOptions options;
  ASSIGN_OR_RETURN(options.paths, MeasuredPathsFlag("--swap", flags.swap));
  ASSIGN_OR_RETURN(const DiskSettings settings, ResolveDiskFlags(flags.disk, options.paths));
  options.io = settings.io;
  if (uint64_t{options.io.block_bytes} * options.io.depth > kMostBufferBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--depth ", options.io.depth, " of --block ", options.io.block_bytes,
                     " is more than 1 GiB in flight: give less of either"));
  }
  if (flags.workers) {
    ASSIGN_OR_RETURN(const int64_t workers, IntegerFlag("--workers", *flags.workers, 1, 256));
    options.workers = static_cast<int>(workers);
  }
  if (flags.seconds) {
    ASSIGN_OR_RETURN(options.seconds, NumberFlag("--seconds", *flags.seconds, 0.5, 3600));
  }
  if (flags.size) {
    ASSIGN_OR_RETURN(options.file_bytes, SizeFlag("--size", *flags.size));
  }
  return options;
}

// The GPU whose link is measured, and says so in `options`; null for the CPU, which has none. In
// use until the result is there.
absl::StatusOr<std::shared_ptr<Device>> OpenDevice(const std::string& flag,
                                                   SwapBenchOptions& options) {
  ASSIGN_OR_RETURN(const DeviceChoice choice,
                   ChooseDeviceHere(flag, DType::kFloat32, /*device_memory_bytes=*/0));
  std::shared_ptr<Device> opened;
  if (choice.gpu) {
    ASSIGN_OR_RETURN(ComputeLibrary* const compute, OpenComputeLibrary());
    ASSIGN_OR_RETURN(opened, compute->OpenGpu(choice));
  }
  options.device = opened.get();
  options.device_text = choice.Text();
  if (!choice.why_not_gpu.empty()) {
    absl::StrAppend(&options.why_no_link, " (no GPU: ", choice.why_not_gpu, ")");
  }
  return opened;
}

CommandOutcome RunBenchSwap(const SwapBenchFlags& flags) {
  auto options = ReadSwapBenchOptions(flags);
  if (!options.ok()) return {options.status()};
  const auto device = OpenDevice(flags.device, *options);
  if (!device.ok()) return {device.status()};
  StopSignal signals;
  options->stopped = [] { return StopSignal::received() != 0; };
  const auto result = RunSwapBench(*options);
  if (absl::IsCancelled(result.status())) {
    return {absl::CancelledError(absl::StrCat(
        "stopped by ", StopSignal::Name(StopSignal::received()), ": nothing is left behind"))};
  }
  if (!result.ok()) return {result.status()};
  if (flags.as_json) {
    std::printf("%s\n", SwapBenchJson(*result)
                            .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                            .c_str());
  } else {
    std::fputs(SwapBenchText(*result).c_str(), stdout);
  }
  return {};
}

}  // namespace

void AddBenchSwapCommand(CLI::App& bench, CommandFunction* run) {
  CLI::App* command =
      bench.add_subcommand("swap", "Rates between every two tiers, alone and both ways at once");
  auto flags = std::make_shared<SwapBenchFlags>();
  command->add_option("--swap", flags->swap, "PATH[,PATH...], as train's")->required();
  command->add_option("--size", flags->size, "of all test files together (1GiB)");
  AddDiskFlags(*command, flags->disk);
  command->add_option("--workers", flags->workers, "threads that copy and check (2, as train's)");
  command->add_option("--device", flags->device, "auto, cpu, cuda: whose link is measured (auto)");
  command->add_option("--seconds", flags->seconds, "about how long (10)");
  command->add_flag("--json", flags->as_json, "one JSON object on stdout");
  command->footer(
      "Leaves no files on the paths.\nExample:\n  spillway bench swap --swap /nvme0,/nvme1");
  command->callback([run, flags] { *run = [flags] { return RunBenchSwap(*flags); }; });
}

}  // namespace spillway
