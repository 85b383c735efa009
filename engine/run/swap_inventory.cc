#include "engine/run/swap_inventory.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "engine/run/committed_run.h"
#include "engine/run/run_directory.h"
#include "engine/run/run_state.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file.h"
#include "io/file_system.h"
#include "swap/store/swap_store.h"

namespace spillway {
namespace {

// Dead runs of this size are logged, or of a hundredth of the free space.
constexpr uint64_t kMuchBytes = uint64_t{1} << 30;
constexpr uint64_t kMuchPart = 100;

using State = SwapRun::State;

constexpr absl::string_view kPrefix = "spillway-";
constexpr size_t kIdDigits = 16;

bool IsHex(absl::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

// Whether the store has tiles in `directory`.
bool IsIn(const FileInfo& directory, const SwapStore& store) {
  const std::vector<std::string>& used = store.directories();
  return std::any_of(used.begin(), used.end(), [&](const std::string& path) {
    const auto info = FileSystem::Real().Stat(path, SymbolicLink::kFollow);
    return info.ok() && info->identity == directory.identity;
  });
}

// For a part prepared in the rank's own `directory`: whether the first rank has made the commit.
bool IsDecided(const CommitRecord& record, const std::string& directory) {
  const auto part = DecodeRunState(record.engine_state);
  if (!part.ok() || part->part.rank == 0) return false;
  const auto first = OpenCommittedRun(ParentPath(ParentPath(directory)));
  return first.ok() && first->state.part.commit_id == part->part.commit_id;
}

// The OUTPUT that contains `directory`, as without --swap. "": it is elsewhere.
std::string OutputAround(const std::string& directory, const RunRecord& owner) {
  std::string path = FileSystem::Real().Resolve(directory);
  while (!owner.run.empty() && path != ParentPath(path)) {
    path = ParentPath(path);
    if (ReadRunId(path) == owner.run) return path;
  }
  return "";
}

// Judges a directory whose owner's OUTPUT is on this machine.
void JudgeByOutput(SwapRun& run) {
  FileSystem& files = FileSystem::Real();
  const auto output = files.Stat(run.output, SymbolicLink::kFollow);
  if (!output.ok()) {
    if (absl::IsNotFound(output.status())) {
      run.state = State::kDead;
      run.reason = absl::StrCat("its OUTPUT ", run.output, " is gone");
    } else {
      run.reason = absl::StrCat("its OUTPUT ", run.output, " cannot be looked at");
    }
    return;
  }
  if (output->user != ::geteuid()) {
    run.reason = absl::StrCat("its OUTPUT ", run.output, " belongs to user ", output->user);
    return;
  }
  const auto ours = files.Stat(run.path, SymbolicLink::kFollow);
  if (!ours.ok()) return;
  bool committed = false, unreadable = false, waits = false;
  // A rank that was killed before it renamed its manifest has a prepared part. That is checked
  // first: a part renamed meanwhile is then found under the other name.
  const std::string manifest = CommitManifestPath(run.output);
  for (const std::string& path :
       {PreparedManifestPath(run.output), PreparedManifestPath(run.output, /*rank=*/0), manifest}) {
    CommitRecord record;
    const auto store = SwapStore::Open(path, /*read_only=*/true, {}, &record);
    if (absl::IsNotFound(store.status())) continue;
    unreadable |= !store.ok();
    committed |= path == manifest;
    if (!store.ok() || !IsIn(*ours, **store)) continue;
    if (path == manifest || IsDecided(record, run.output)) {
      const auto state = DecodeRunState(record.engine_state);
      run.state = State::kResumable;
      run.finished = state.ok() && state->finished;
      run.reason = absl::StrCat("step ", record.step, " of ", run.output,
                                run.finished ? ", which has finished" : "");
      return;
    }
    waits = true;
  }
  if (unreadable) {
    run.reason = absl::StrCat("the commit in ", run.output, " cannot be read");
    return;
  }
  if (waits) {
    run.reason = absl::StrCat("its part of a commit waits in ", run.output,
                              ": resume that run, which takes it up or removes it");
    return;
  }
  run.state = State::kDead;
  if (!committed && Exists(FreedManifestPath(run.output, RankByName(run.output)))) {
    run.reason = absl::StrCat("its run in ", run.output, " finished, and the state was freed");
    return;
  }
  run.reason = committed
                   ? absl::StrCat("the commit in ", run.output, " is on other swap")
                   : absl::StrCat("its run in ", run.output, " ended before the first commit");
}

void JudgeByOwner(const std::optional<RunRecord>& owner, bool empty, SwapRun& run) {
  if (!owner) {
    // A run writes its record before it creates files.
    run.state = empty ? State::kDead : State::kUnknown;
    run.reason = empty ? "it was killed before it wrote anything" : "it does not say whose it is";
    return;
  }
  run.output = owner->output;
  run.started_seconds = owner->since_seconds;
  const RunRecord here = ThisProcess();
  if (owner->host != here.host || owner->machine != here.machine) {
    run.state = State::kElsewhere;
    run.reason = absl::StrCat("of ", owner->host, ": run `spillway clean` there");
    return;
  }
  // OUTPUT may have been moved since, and this directory with it.
  if (const std::string around = OutputAround(run.path, *owner); !around.empty()) {
    run.output = around;
  }
  JudgeByOutput(run);
}

bool HasNoSwapFile(const std::string& directory) {
  return !FileSystem::Real().Stat(absl::StrCat(directory, "/", SwapFileNames()[0])).ok();
}

absl::StatusOr<SwapRun> Judge(const std::string& path) {
  ASSIGN_OR_RETURN(const RunDirectoryGlance glance, GlanceAtRunDirectory(path));
  SwapRun run;
  run.path = path;
  run.allocated_bytes = glance.allocated_bytes;
  run.modified_seconds = glance.modified_seconds;
  if (!glance.readable) {
    run.reason = absl::StrCat("it belongs to user ", glance.user);
    return run;
  }
  if (glance.owner) {
    run.output = glance.owner->output;
    run.started_seconds = glance.owner->since_seconds;
  }
  if (glance.in_use) {
    run.state = State::kInUse;
    run.reason = glance.holder ? absl::StrCat("by ", DescribeHolder(*glance.holder, ThisProcess()))
                               : "by a process that has not said who it is";
    return run;
  }
  JudgeByOwner(glance.owner, HasNoSwapFile(path), run);
  return run;
}

}  // namespace

std::string SwapDirectoryName(const std::string& id, int store_number) {
  return absl::StrCat(kPrefix, id, "-rank0.", store_number);
}

bool IsSwapDirectoryName(absl::string_view name) {
  return absl::ConsumePrefix(&name, kPrefix) && name.size() > kIdDigits &&
         IsHex(name.substr(0, kIdDigits)) && absl::StartsWith(name.substr(kIdDigits), "-rank");
}

const std::vector<std::string>& SwapFileNames() {
  static const std::vector<std::string>& names = *new std::vector<std::string>{"tiles"};
  return names;
}

std::string ReadRunId(const std::string& output, FileSystem& files) {
  const auto directory = files.OpenOwn(output, DirectoryUse::kLook);
  if (!directory.ok()) return "";
  const auto text = (*directory)->ReadFile(kRunIdName, 4096);
  if (!text.ok()) return "";
  const std::string id(absl::StripSuffix(*text, "\n"));
  return id.size() == kIdDigits && IsHex(id) ? id : "";
}

absl::StatusOr<std::string> CreateRunId(const std::string& output, FileSystem& files) {
  ASSIGN_OR_RETURN(const uint64_t random, files.RandomNumber());
  const std::string id = absl::StrFormat("%016x", random);
  RETURN_IF_ERROR(WriteFileAtomically(files, absl::StrCat(output, "/", kRunIdName), id + "\n"));
  return id;
}

const char* SwapRunStateName(SwapRun::State state) {
  switch (state) {
    case State::kInUse:
      return "in use";
    case State::kResumable:
      return "resumable";
    case State::kDead:
      return "dead";
    case State::kElsewhere:
      return "elsewhere";
    case State::kUnknown:
      return "unknown";
  }
  return "";
}

absl::StatusOr<std::vector<SwapRun>> FindSwapRuns(const std::string& parent) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, FileSystem::Real().List(parent));
  std::vector<SwapRun> runs;
  for (const std::string& name : names) {
    if (!IsSwapDirectoryName(name)) continue;
    const std::string path = absl::StrCat(parent, "/", name);
    auto run = Judge(path);
    if (absl::IsNotFound(run.status())) continue;  // removed meanwhile, or only named like one
    if (!run.ok()) {
      run = SwapRun();
      run->path = path;
      run->reason = "it cannot be looked at";
    }
    runs.push_back(*std::move(run));
  }
  return runs;
}

absl::StatusOr<uint64_t> RemoveDeadRun(const SwapRun& run) {
  ASSIGN_OR_RETURN(auto directory, RunDirectory::Open(run.path, {.create = false}));
  ASSIGN_OR_RETURN(const auto owner, directory->ReadOwner());
  RETURN_IF_ERROR(directory->CheckEntries(SwapFileNames(), {}, OtherNames::kIgnored));
  SwapRun now;
  now.path = run.path;
  JudgeByOwner(owner, HasNoSwapFile(run.path), now);
  if (now.state != State::kDead) {
    return absl::FailedPreconditionError(absl::StrCat(run.path, " is not dead any more (",
                                                      SwapRunStateName(now.state), ": ", now.reason,
                                                      "); it stays"));
  }
  return RunDirectory::Remove(std::move(directory), SwapFileNames());
}

void WarnOfDeadRuns(const std::string& parent) {
  const auto runs = FindSwapRuns(parent);
  if (!runs.ok()) return;  // writable, but cannot be listed
  uint64_t dead_bytes = 0;
  int dead = 0;
  for (const SwapRun& run : *runs) {
    if (run.state != SwapRun::State::kDead) continue;
    dead_bytes += run.allocated_bytes;
    ++dead;
  }
  const uint64_t free_bytes = FileSystem::Real().FreeBytes(parent).value_or(0);
  if (dead_bytes < std::min(kMuchBytes, free_bytes / kMuchPart) || dead_bytes == 0) return;
  LogWarning(absl::StrCat(dead, dead == 1 ? " dead run holds " : " dead runs hold ",
                          FormatBytes(dead_bytes), " below ", parent, ": `spillway clean --swap ",
                          parent, "` lists them"));
}

}  // namespace spillway
