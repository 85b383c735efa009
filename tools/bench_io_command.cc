// spillway bench io: storage as training uses it, without a model.
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/flag_value.h"
#include "engine/base/print_json.h"
#include "engine/base/stop_signal.h"
#include "engine/machine/io_bench.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "nlohmann/json.hpp"
#include "tools/commands.h"
#include "tools/disk_flags.h"

namespace spillway {
namespace {

const std::map<std::string, IoBenchOp> kOps = {{"read", IoBenchOp::kRead},
                                               {"write", IoBenchOp::kWrite},
                                               {"mixed", IoBenchOp::kMixed},
                                               {"demand", IoBenchOp::kDemand}};

constexpr uint64_t kMostFileBytes = uint64_t{1} << 50, kMostWindowBytes = uint64_t{1} << 40;

struct Flags {
  std::string paths;
  std::string op = "read";
  std::string size = "4GiB";
  std::string write_window = "8MiB";
  DiskFlags disk;
  std::string seconds = "0";
  bool verify = false;
  bool as_json = false;
};

struct Bench {
  IoBenchOptions options;
  std::vector<std::string> tuned;  // DiskSettings
};

absl::StatusOr<uint64_t> LimitedSize(absl::string_view flag, const std::string& text,
                                     uint64_t most_bytes) {
  ASSIGN_OR_RETURN(const uint64_t size_bytes, SizeFlag(flag, text));
  if (size_bytes > most_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", text, ": use at most ", FormatBytes(most_bytes)));
  }
  return size_bytes;
}

absl::StatusOr<Bench> ToBench(const Flags& flags) {
  Bench bench;
  IoBenchOptions& options = bench.options;
  ASSIGN_OR_RETURN(options.size_bytes, LimitedSize("--size", flags.size, kMostFileBytes));
  ASSIGN_OR_RETURN(const uint64_t write_window_bytes,
                   LimitedSize("--write-window", flags.write_window, kMostWindowBytes));
  ASSIGN_OR_RETURN(options.directories, MeasuredPathsFlag("--path", flags.paths));
  ASSIGN_OR_RETURN(DiskSettings settings, ResolveDiskFlags(flags.disk, options.directories));
  options.io = settings.io;
  options.io.write_window_bytes = write_window_bytes;
  options.op = kOps.at(flags.op);
  ASSIGN_OR_RETURN(options.seconds, NumberFlag("--seconds", flags.seconds, 0, 86400));
  options.verify = flags.verify;
  options.stopped = [] { return StopSignal::received() != 0; };
  bench.tuned = std::move(settings.tuned);
  return bench;
}

nlohmann::json ToJson(const LatencySummary& latency) {
  return {{"count", latency.count},
          {"p50_seconds", latency.p50_seconds},
          {"p90_seconds", latency.p90_seconds},
          {"p99_seconds", latency.p99_seconds},
          {"p999_seconds", latency.p999_seconds},
          {"max_seconds", latency.max_seconds}};
}

nlohmann::json ToJson(const IoBenchPhase& phase) {
  const double seconds = phase.seconds > 0 ? phase.seconds : 1;
  return {{"bytes_per_second", phase.BytesPerSecond()},
          {"read_bytes_per_second", static_cast<double>(phase.read_bytes) / seconds},
          {"write_bytes_per_second", static_cast<double>(phase.written_bytes) / seconds},
          {"seconds", phase.seconds},
          {"cpu_seconds", phase.cpu_seconds},
          {"read_bytes", phase.read_bytes},
          {"written_bytes", phase.written_bytes},
          {"latency", ToJson(phase.latency)}};
}

nlohmann::json ToJson(const Flags& flags, const Bench& bench, const IoBenchResult& result) {
  const IoBenchOptions& options = bench.options;
  nlohmann::json json = ToJson(result.main);
  json["op"] = flags.op;
  json["paths"] = options.directories;
  json["size_bytes"] = result.size_bytes;
  json["block_bytes"] = options.io.block_bytes;
  json["depth"] = options.io.depth;
  json["write_window_bytes"] = options.io.write_window_bytes;
  json["verify"] = options.verify;
  json["direct"] = result.direct;
  json["engine"] = result.engine;
  if (result.engine == "threads") json["threads"] = options.io.threads;
  json["tuned"] = bench.tuned;
  json["features"] = result.features.on;
  json["refused"] = nlohmann::json::array();
  for (const IoFeatures::Refused& refused : result.features.refused) {
    json["refused"].push_back({{"feature", refused.feature}, {"reason", refused.reason}});
  }
  if (options.op == IoBenchOp::kDemand) {
    json["unloaded"] = ToJson(result.unloaded);
    json["write_back_alone"] = ToJson(result.writes);
    json["bound_seconds"] = result.bound_seconds;
    json["within_bound"] = result.main.latency.p99_seconds <= result.bound_seconds;
  }
  return json;
}

std::string Rate(double bytes_per_second) {
  return absl::StrFormat("%.3f GB/s", bytes_per_second * 1e-9);
}

// At most 80 columns, where the words allow it.
std::string Wrapped(const std::string& line) {
  std::string out;
  size_t column = 0;
  bool first = true;
  for (const absl::string_view word : absl::StrSplit(line, ' ')) {  // of an indent: empty ones
    const bool fits = column + 1 + word.size() <= 80;
    absl::StrAppend(&out, std::exchange(first, false) ? "" : fits ? " " : "\n    ", word);
    column = out.size() - (out.rfind('\n') == std::string::npos ? 0 : out.rfind('\n') + 1);
  }
  return out;
}

void PrintLatency(const char* name, const LatencySummary& latency) {
  const auto ms = [](double seconds) { return absl::StrFormat("%9.2f", seconds * 1e3); };
  std::printf("%-18s%s%s%s%s%s%9llu\n", name, ms(latency.p50_seconds).c_str(),
              ms(latency.p90_seconds).c_str(), ms(latency.p99_seconds).c_str(),
              ms(latency.p999_seconds).c_str(), ms(latency.max_seconds).c_str(),
              static_cast<unsigned long long>(latency.count));
}

void PrintRates(const IoBenchPhase& phase, bool mixed) {
  const double seconds = phase.seconds > 0 ? phase.seconds : 1;
  std::printf("%s, %.2f s, processor %.2f s\n", Rate(phase.BytesPerSecond()).c_str(), phase.seconds,
              phase.cpu_seconds);
  if (mixed) {
    std::printf("  of it %s read, %s written\n",
                Rate(static_cast<double>(phase.read_bytes) / seconds).c_str(),
                Rate(static_cast<double>(phase.written_bytes) / seconds).c_str());
  }
}

void Print(const Flags& flags, const Bench& bench, const IoBenchResult& result) {
  const IoBenchOptions& options = bench.options;
  std::printf("%s%s, blocks of %s, %u in flight, files of %s%s\n", flags.op.c_str(),
              options.verify ? " with checksums" : "", FormatBytes(options.io.block_bytes).c_str(),
              options.io.depth, FormatBytes(result.size_bytes).c_str(),
              result.direct ? "" : " (page cache: no direct I/O there)");
  const bool demand = options.op == IoBenchOp::kDemand;
  if (demand) {
    std::printf("write-back alone: ");
    PrintRates(result.writes, false);
    std::printf("with demand reads: ");
  }
  PrintRates(result.main, demand || options.op == IoBenchOp::kMixed);
  std::printf("\n%-18s%9s%9s%9s%9s%9s%9s\n", "latency in ms", "p50", "p90", "p99", "p99.9", "max",
              "blocks");
  if (demand) PrintLatency("demand alone", result.unloaded.latency);
  PrintLatency(demand ? "under write-back" : "block", result.main.latency);
  if (demand) {
    std::printf("bound for p99: %.2f ms (alone, and the time to drain a window of %s)\n",
                result.bound_seconds * 1e3, FormatBytes(options.io.write_window_bytes).c_str());
  }
  std::printf("\nengine: %s", result.engine.c_str());
  if (result.engine == "threads") std::printf(", %u threads", options.io.threads);
  std::printf("\n");
  if (!bench.tuned.empty()) {
    std::printf("tuned: %s (spillway tune)\n", absl::StrJoin(bench.tuned, ", ").c_str());
  }
  for (const std::string& feature : result.features.on) std::printf("  with %s\n", feature.c_str());
  for (const IoFeatures::Refused& refused : result.features.refused) {
    std::printf("%s\n",
                Wrapped(absl::StrCat("  without ", refused.feature, ": ", refused.reason)).c_str());
  }
}

CommandOutcome BenchIo(const Flags& flags) {
  absl::StatusOr<Bench> bench = ToBench(flags);
  if (!bench.ok()) return {bench.status()};
  StopSignal signals;
  const absl::StatusOr<IoBenchResult> result = RunIoBench(bench->options);
  if (absl::IsCancelled(result.status())) {
    return {absl::CancelledError(absl::StrCat(
        "stopped by ", StopSignal::Name(StopSignal::received()), ": nothing is left behind"))};
  }
  if (!result.ok()) return {result.status()};
  if (result->engine != "threads") std::erase(bench->tuned, "threads");  // without effect
  if (flags.as_json) {
    PrintJson(ToJson(flags, *bench, *result));
  } else {
    Print(flags, *bench, *result);
  }
  return {};
}

std::vector<std::string> OpNames() {
  std::vector<std::string> names;
  for (const auto& [name, op] : kOps) names.push_back(name);
  return names;
}

}  // namespace

void AddBenchIoCommand(CLI::App& bench, CommandFunction* run) {
  CLI::App* io = bench.add_subcommand("io", "Storage as training uses it");
  auto flags = std::make_shared<Flags>();
  io->add_option("--path", flags->paths, "directories to measure")
      ->required()
      ->type_name("DIR[,DIR...]");
  io->add_option("--op", flags->op, "what to do; demand: the latency of reads beside writes (read)")
      ->type_name(absl::StrJoin(OpNames(), "|"))
      ->check(CLI::IsMember(OpNames()).description(""));
  io->add_option("--size", flags->size, "of the files together (4GiB)")->type_name("SIZE");
  io->add_option("--seconds", flags->seconds, "how long (0: once over the files)")
      ->type_name("NUMBER");
  AddDiskFlags(*io, flags->disk, "--io-threads,--threads");
  io->add_option("--write-window", flags->write_window,
                 "write-back in flight beside demand reads (8MiB)")
      ->type_name("SIZE");
  io->add_flag("--verify", flags->verify, "compute and check checksums");
  io->add_flag("--poll", flags->disk.poll, "io_uring: ask the drive, no interrupts (IOPOLL)");
  io->add_flag("--sqpoll", flags->disk.sqpoll, "io_uring: a kernel thread submits (SQPOLL)");
  io->add_flag("--json", flags->as_json, "one JSON object on stdout");
  io->footer(
      "Engine, block, depth and threads that are not given are those of a run on these paths: what "
      "`spillway tune` found. The files have no name and are gone at the end, however it comes.\n\n"
      "Example:\n  spillway bench io --path /nvme --op read --seconds 5");
  io->callback([run, flags] { *run = [flags] { return BenchIo(*flags); }; });
}

}  // namespace spillway
