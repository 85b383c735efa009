// spillway bench swap: rates between every two tiers, or what swapping keeps up with without a
// disk.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/flag_value.h"
#include "engine/base/print_json.h"
#include "engine/base/stop_signal.h"
#include "engine/machine/core_limits.h"
#include "engine/machine/memory_limits.h"
#include "engine/tuning/bench_swap.h"
#include "engine/tuning/null_bench.h"
#include "io/base/format_bytes.h"
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
  bool null = false;
  std::string given_of_disk;  // a flag that says nothing with --null; "": none was given
  bool as_json = false;
};

// In flight at most: memory that the measurement takes.
constexpr uint64_t kMostBufferBytes = uint64_t{1} << 30;

// What both measurements have.
template <typename Options>
absl::Status ReadHowLong(const SwapBenchFlags& flags, Options& options) {
  options.workers = UpdateWorkersFor(UsableCores(), UsableCores());
  if (flags.workers) {
    ASSIGN_OR_RETURN(const int64_t workers, IntegerFlag("--workers", *flags.workers, 1, 256));
    options.workers = static_cast<int>(workers);
  }
  if (flags.seconds) {
    ASSIGN_OR_RETURN(options.seconds, NumberFlag("--seconds", *flags.seconds, 0.5, 3600));
  }
  options.stopped = [] { return StopSignal::received() != 0; };
  return absl::OkStatus();
}

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
  RETURN_IF_ERROR(ReadHowLong(flags, options));
  if (flags.size) {
    ASSIGN_OR_RETURN(options.file_bytes, SizeFlag("--size", *flags.size));
  }
  const uint64_t needed = SwapBenchMemoryBytes(options), available = AvailableMemoryBytes();
  if (needed > available) {
    return DoesNotFitError(absl::StrCat(
        options.workers, " --workers and ", options.io.depth, " blocks of ",
        FormatBytes(options.io.block_bytes), " (--depth, --block) take ", FormatBytes(needed),
        " of memory, and ", FormatBytes(available), " are free: give less of either"));
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

template <typename Result>
CommandOutcome Show(const absl::StatusOr<Result>& result, const SwapBenchFlags& flags,
                    nlohmann::json (*to_json)(const Result&),
                    std::string (*to_text)(const Result&)) {
  if (absl::IsCancelled(result.status())) {
    return {absl::CancelledError(absl::StrCat(
        "stopped by ", StopSignal::Name(StopSignal::received()), ": nothing is left behind"))};
  }
  if (!result.ok()) return {result.status()};
  if (flags.as_json) {
    PrintJson(to_json(*result));
  } else {
    std::fputs(to_text(*result).c_str(), stdout);
  }
  return {};
}

CommandOutcome RunBenchSwap(const SwapBenchFlags& flags) {
  if (flags.null) {
    if (!flags.given_of_disk.empty()) {
      return {absl::InvalidArgumentError(
          absl::StrCat("--null has no disk and no device: leave ", flags.given_of_disk, " out"))};
    }
    NullBenchOptions options;
    const absl::Status status = ReadHowLong(flags, options);
    if (!status.ok()) return {status};
    StopSignal signals;
    return Show(RunNullBench(options), flags, NullBenchJson, NullBenchText);
  }
  if (flags.swap.empty()) {
    return {absl::InvalidArgumentError("--swap is required (or --null, without a disk)")};
  }
  auto options = ReadSwapBenchOptions(flags);
  if (!options.ok()) return {options.status()};
  const auto device = OpenDevice(flags.device, *options);
  if (!device.ok()) return {device.status()};
  StopSignal signals;
  return Show(RunSwapBench(*options), flags, SwapBenchJson, SwapBenchText);
}

}  // namespace

void AddBenchSwapCommand(CLI::App& bench, CommandFunction* run) {
  CLI::App* command =
      bench.add_subcommand("swap", "Rates between every two tiers, alone and both ways at once");
  auto flags = std::make_shared<SwapBenchFlags>();
  command->add_option("--swap", flags->swap, "directories as train's --swap")
      ->type_name("PATH[,PATH...]");
  command->add_option("--size", flags->size, "of all test files together (1GiB)")
      ->type_name("SIZE");
  AddDiskFlags(*command, flags->disk);
  command->add_option("--workers", flags->workers, "threads that copy and check (as train's)")
      ->type_name("N");
  command->add_option("--device", flags->device, "whose link is measured (auto)")
      ->type_name("auto|cpu|cuda");
  command->add_option("--seconds", flags->seconds, "about how long (10)")->type_name("NUMBER");
  command->add_flag("--null", flags->null,
                    "a disk that completes at once: what mover and workers keep up with");
  command->add_flag("--json", flags->as_json, "one JSON object on stdout");
  command->footer(
      "Leaves no files on the paths.\nExamples:\n  spillway bench swap --swap /nvme0,/nvme1\n"
      "  spillway bench swap --null --workers 4");
  command->callback([run, flags, command] {
    for (const char* name :
         {"--swap", "--size", "--block", "--depth", "--io-engine", "--io-threads", "--device"}) {
      if (command->count(name) > 0) flags->given_of_disk = name;
    }
    *run = [flags] { return RunBenchSwap(*flags); };
  });
}

}  // namespace spillway
