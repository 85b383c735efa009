#include "tools/disk_flags.h"

#include "absl/strings/str_cat.h"
#include "engine/base/flag_value.h"
#include "engine/machine/probe_path.h"
#include "engine/machine/swap_paths.h"
#include "engine/tuning/tuned_io.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr uint64_t kBlockUnit = 4096, kMostBlockBytes = uint64_t{1} << 30;

absl::Status ReadGiven(const DiskFlags& flags, IoEngineOptions* io, IoGiven* given) {
  using Kind = IoEngineOptions::Kind;
  if (flags.block) {
    ASSIGN_OR_RETURN(const uint64_t bytes, SizeFlag("--block", *flags.block));
    if (bytes > kMostBlockBytes || bytes % kBlockUnit != 0) {
      return BadFlagValue("--block", *flags.block, "a multiple of 4096 up to 1GiB");
    }
    io->block_bytes = static_cast<uint32_t>(bytes);
    given->block_bytes = true;
  }
  if (flags.depth) {
    ASSIGN_OR_RETURN(const int64_t depth, IntegerFlag("--depth", *flags.depth, 1, 4096));
    io->depth = static_cast<uint32_t>(depth);
    given->depth = true;
  }
  if (flags.io_engine) {
    ASSIGN_OR_RETURN(io->kind, ChoiceFlag<Kind>("--io-engine", *flags.io_engine,
                                                {{"auto", Kind::kAuto},
                                                 {"io_uring", Kind::kUring},
                                                 {"threads", Kind::kThreads}}));
    given->kind = true;
  }
  if (flags.io_threads) {
    ASSIGN_OR_RETURN(const int64_t threads, IntegerFlag("--io-threads", *flags.io_threads, 1, 256));
    io->threads = static_cast<uint32_t>(threads);
    given->threads = true;
  }
  // These modes need io_uring, so a flag for one also chooses the engine.
  given->kind = given->kind || flags.poll || flags.sqpoll;
  io->poll = flags.poll;
  io->sqpoll = flags.sqpoll;
  return absl::OkStatus();
}

}  // namespace

void AddDiskFlags(CLI::App& command, DiskFlags& flags, const std::string& threads_names) {
  command.add_option("--block", flags.block, "block size (tuned, or 1MiB)")->type_name("SIZE");
  command.add_option("--depth", flags.depth, "blocks in flight (tuned, or 32)")->type_name("N");
  command.add_option("--io-engine", flags.io_engine, "how disks are read (tuned, or auto)")
      ->type_name("auto|io_uring|threads");
  command.add_option(threads_names, flags.io_threads, "of the thread engine (tuned, or 4)")
      ->type_name("N");
}

absl::StatusOr<DiskSettings> ResolveDiskFlags(const DiskFlags& flags,
                                              const std::vector<std::string>& paths) {
  DiskSettings settings;
  IoGiven given;
  RETURN_IF_ERROR(ReadGiven(flags, &settings.io, &given));
  const auto entry = FindTuning(paths);
  if (!entry) return settings;
  ApplyTuning(*entry, given, &settings.io);
  if (!given.kind) settings.tuned.push_back("engine");
  if (!given.block_bytes) settings.tuned.push_back("block");
  if (!given.depth) settings.tuned.push_back("depth");
  if (!given.threads) settings.tuned.push_back("threads");
  return settings;
}

absl::StatusOr<std::vector<std::string>> MeasuredPathsFlag(const std::string& flag,
                                                           const std::string& text) {
  ASSIGN_OR_RETURN(std::vector<std::string> paths, ListFlag(flag, text));
  for (std::string& path : paths) {
    path = SwapPathOfRank(path, 0);
    const std::string named = absl::StrCat(flag, " ", path);
    if (!Exists(path)) {
      return absl::InvalidArgumentError(
          absl::StrCat(named, " does not exist: create it, or give another path"));
    }
    if (!IsDirectory(path)) {
      return absl::InvalidArgumentError(absl::StrCat(named, " is not a directory"));
    }
    const std::string kind = FindMount(path).filesystem;
    if (KindOfFilesystem(kind) == FilesystemKind::kMemory) {
      LogWarning(
          absl::StrCat(named, " is memory (", kind, "), not a disk: its rates say nothing of one"));
    }
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (SameFile(paths[i], paths[j])) {
        return absl::InvalidArgumentError(absl::StrCat(flag, " ", paths[i], " is given twice"));
      }
    }
  }
  return paths;
}

}  // namespace spillway
