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
#include "engine/config/size.h"
#include "io/io_bench.h"
#include "io/status.h"
#include "nlohmann/json.hpp"
#include "swap/format_bytes.h"
#include "tools/commands.h"

namespace spillway {
namespace {

const std::map<std::string, IoBenchOp> kOps = {{"read", IoBenchOp::kRead},
                                               {"write", IoBenchOp::kWrite},
                                               {"mixed", IoBenchOp::kMixed},
                                               {"demand", IoBenchOp::kDemand}};

const std::map<std::string, IoEngineOptions::Kind> kEngines = {
    {"auto", IoEngineOptions::Kind::kAuto},
    {"io_uring", IoEngineOptions::Kind::kUring},
    {"threads", IoEngineOptions::Kind::kThreads}};

struct Flags {
  std::string paths;
  std::string op = "read";
  std::string size = "4GiB";
  std::string block = "1MiB";
  std::string write_window = "8MiB";
  std::string engine = "auto";
  uint32_t depth = 32;
  uint32_t threads = 4;
  double seconds = 0;
  bool verify = false;
  bool poll = false;
  bool sqpoll = false;
  bool as_json = false;
};

absl::Status SizeFlag(absl::string_view flag, const std::string& text, uint64_t limit_bytes,
                      uint64_t* size_bytes) {
  const absl::StatusOr<uint64_t> parsed = ParseSize(text);
  if (!parsed.ok()) return Annotate(parsed.status(), flag);
  if (*parsed > limit_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", text, ": use at most ", FormatBytes(limit_bytes)));
  }
  *size_bytes = *parsed;
  return absl::OkStatus();
}

absl::StatusOr<IoBenchOptions> ToOptions(const Flags& flags) {
  IoBenchOptions options;
  for (const absl::string_view path : absl::StrSplit(flags.paths, ',', absl::SkipEmpty())) {
    options.directories.push_back(std::string(path));
  }
  options.op = kOps.at(flags.op);
  uint64_t block_bytes = 0;
  RETURN_IF_ERROR(SizeFlag("--size", flags.size, uint64_t{1} << 50, &options.size_bytes));
  RETURN_IF_ERROR(SizeFlag("--block", flags.block, uint64_t{1} << 30, &block_bytes));
  RETURN_IF_ERROR(SizeFlag("--write-window", flags.write_window, uint64_t{1} << 40,
                           &options.io.write_window_bytes));
  options.io.block_bytes = static_cast<uint32_t>(block_bytes);
  options.io.depth = flags.depth;
  options.io.threads = flags.threads;
  options.io.kind = kEngines.at(flags.engine);
  options.io.poll = flags.poll;
  options.io.sqpoll = flags.sqpoll;
  options.seconds = flags.seconds;
  options.verify = flags.verify;
  return options;
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

nlohmann::json ToJson(const Flags& flags, const IoBenchOptions& options,
                      const IoBenchResult& result) {
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
  for (const absl::string_view word : absl::StrSplit(line, ' ')) {
    const bool fits = column == 0 || column + 1 + word.size() <= 80;
    absl::StrAppend(&out, column == 0 ? "" : fits ? " " : "\n    ", word);
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
  std::printf("%s", Rate(phase.BytesPerSecond()).c_str());
  if (mixed) {
    std::printf(" (%s read, %s written)",
                Rate(static_cast<double>(phase.read_bytes) / seconds).c_str(),
                Rate(static_cast<double>(phase.written_bytes) / seconds).c_str());
  }
  std::printf(", %.2f s, processor %.2f s\n", phase.seconds, phase.cpu_seconds);
}

void Print(const Flags& flags, const IoBenchOptions& options, const IoBenchResult& result) {
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
  for (const std::string& feature : result.features.on) std::printf("  with %s\n", feature.c_str());
  for (const IoFeatures::Refused& refused : result.features.refused) {
    std::printf("%s\n",
                Wrapped(absl::StrCat("  without ", refused.feature, ": ", refused.reason)).c_str());
  }
}

CommandOutcome BenchIo(const Flags& flags) {
  const absl::StatusOr<IoBenchOptions> options = ToOptions(flags);
  if (!options.ok()) return {options.status()};
  const absl::StatusOr<IoBenchResult> result = RunIoBench(*options);
  if (!result.ok()) return {result.status()};
  if (flags.as_json) {
    std::printf("%s\n", ToJson(flags, *options, *result).dump().c_str());
  } else {
    Print(flags, *options, *result);
  }
  return {};
}

template <typename Value>
std::vector<std::string> Names(const std::map<std::string, Value>& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

}  // namespace

void AddBenchIoCommand(CLI::App& bench, CommandFunction* run) {
  CLI::App* io = bench.add_subcommand("io", "Storage as training uses it");
  auto flags = std::make_shared<Flags>();
  io->add_option("--path", flags->paths, "directories, separated by commas")->required();
  io->add_option("--op", flags->op, "read, write, mixed, or demand (latency under writes)")
      ->check(CLI::IsMember(Names(kOps)));
  io->add_option("--size", flags->size, "of the files together (4GiB)");
  io->add_option("--block", flags->block, "size of a block (1MiB)");
  io->add_option("--depth", flags->depth, "blocks in flight (32)");
  io->add_option("--seconds", flags->seconds, "how long (0: once over the files)")
      ->check(CLI::Range(0.0, 86400.0));
  io->add_option("--io-engine", flags->engine, "auto, io_uring or threads")
      ->check(CLI::IsMember(Names(kEngines)));
  io->add_option("--threads", flags->threads, "of the engine `threads` (4)");
  io->add_option("--write-window", flags->write_window, "most write-back in flight (8MiB)");
  io->add_flag("--verify", flags->verify, "compute and check checksums");
  io->add_flag("--poll", flags->poll, "io_uring: ask the drive, no interrupts (IOPOLL)");
  io->add_flag("--sqpoll", flags->sqpoll, "io_uring: a kernel thread submits (SQPOLL)");
  io->add_flag("--json", flags->as_json, "one JSON object on stdout");
  io->footer(
      "The files have no name and are gone at the end, however it comes.\n\n"
      "Example:\n  spillway bench io --path /nvme --op read --seconds 5");
  io->callback([run, flags] { *run = [flags] { return BenchIo(*flags); }; });
}

}  // namespace spillway
