#include "engine/run/commit_copies.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "engine/run/copy_folder.h"
#include "engine/run/run_state.h"
#include "engine/weights/model_files.h"
#include "io/base/check.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "swap/mover/whole_store.h"

namespace spillway {
namespace {

constexpr absl::string_view kCopyPrefix = "step-";

}  // namespace

CommitCopies::CommitCopies(std::unique_ptr<RunDirectory> lock, int keep, FileSystem& files,
                           Executor* executor)
    : lock_(std::move(lock)),
      keep_(keep),
      files_(files),
      executor_(executor),
      thread_(1, executor) {}

StoreOptions CommitCopies::OptionsOf(const std::string& copy, const InPlaceUnits& in_place) const {
  StoreOptions options;
  options.in_place = in_place;
  options.directories = {copy};
  options.two_slots = false;
  options.files = &files_;
  return options;
}

CommitCopies::~CommitCopies() {
  (void)Wait();
  if (!created_ || !List().empty()) return;
  (void)RunDirectory::Remove(std::move(lock_), {});
}

absl::StatusOr<std::unique_ptr<CommitCopies>> CommitCopies::Open(const std::string& directory,
                                                                 int keep, FileSystem& files,
                                                                 Executor* executor) {
  SPILLWAY_CHECK(keep >= 1);
  const bool created = !files.Look(directory, SymbolicLink::kFollow).ok();
  // What it could not make, RunDirectory says.
  CreateDirectories(files, ParentPath(directory)).IgnoreError();
  auto lock = RunDirectory::Open(directory, {.files = &files});
  if (!lock.ok()) return Annotate(lock.status(), "--persist");
  auto copies =
      std::unique_ptr<CommitCopies>(new CommitCopies(*std::move(lock), keep, files, executor));
  copies->created_ = created;
  for (const Copy& copy : copies->List()) {
    const absl::Status checked = CheckCopyFolder(copies->lock_->own(), copy.name);
    if (!checked.ok()) return Annotate(checked, "--persist");
    if (files.Look(CommitManifestPath(copy.directory)).ok()) {
      copies->found_.push_back(copy);
    } else {
      copies->unfinished_.push_back(copy);
    }
  }
  return copies;
}

uint64_t CommitCopies::AllocatedBytes(const std::string& directory) const {
  uint64_t bytes = 0;
  const auto names = files_.List(directory);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::string path = absl::StrCat(directory, "/", name);
    const auto info = files_.Look(path);
    if (!info.ok()) continue;
    bytes += info->allocated_bytes;
    if (info->kind == FileInfo::Kind::kDirectory) bytes += AllocatedBytes(path);
  }
  return bytes;
}

absl::Status CommitCopies::RemoveUnfinished() {
  for (const Copy& copy : unfinished_) {
    LogInfo(absl::StrCat("removing ", FormatBytes(AllocatedBytes(copy.directory)),
                         " of a copy of a commit that a killed run left unfinished in ",
                         copy.directory));
    RETURN_IF_ERROR(RemoveCopy(copy.name));
  }
  unfinished_.clear();
  return absl::OkStatus();
}

absl::Status CommitCopies::RemoveAll() {
  RETURN_IF_ERROR(RemoveUnfinished());
  for (const Copy& copy : found_) {
    LogInfo(absl::StrCat("removing ", FormatBytes(AllocatedBytes(copy.directory)),
                         ", the commit of step ", copy.step, " of the earlier run, in ",
                         copy.directory));
    RETURN_IF_ERROR(RemoveCopy(copy.name));
  }
  found_.clear();
  return absl::OkStatus();
}

// Every folder of a copy's name, whole or not, newest first.
std::vector<CommitCopies::Copy> CommitCopies::List() const {
  std::vector<Copy> copies;
  const auto names = files_.List(directory());
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    Copy copy;
    copy.directory = absl::StrCat(directory(), "/", name);
    copy.name = name;
    if (!absl::StartsWith(name, kCopyPrefix) ||
        !absl::SimpleAtoi(absl::StripPrefix(name, kCopyPrefix), &copy.step)) {
      continue;
    }
    const auto info = files_.Look(copy.directory);
    if (info.ok() && info->kind == FileInfo::Kind::kDirectory) copies.push_back(std::move(copy));
  }
  std::sort(copies.begin(), copies.end(),
            [](const Copy& a, const Copy& b) { return a.step > b.step; });
  return copies;
}

uint64_t CommitCopies::NeededBytes(const StateLayout& layout, const InPlaceUnits& in_place,
                                   bool afresh) const {
  const uint64_t there = afresh ? 0 : std::min<size_t>(keep_, found_.size());
  return (keep_ + 1 - there) * SwapStore::StorageBytes(layout, OptionsOf(directory(), in_place));
}

absl::Status CommitCopies::CheckSpace(const StateLayout& layout, const InPlaceUnits& in_place,
                                      bool afresh) const {
  ASSIGN_OR_RETURN(uint64_t free_bytes, files_.FreeBytes(directory()));
  for (const Copy& copy : unfinished_) free_bytes += AllocatedBytes(copy.directory);
  if (afresh) {
    for (const Copy& copy : found_) free_bytes += AllocatedBytes(copy.directory);
  }
  const uint64_t needed = NeededBytes(layout, in_place, afresh);
  if (needed <= free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("--persist ", directory(), ": ", keep_, " commits and one being written need ",
                   FormatBytes(needed), " more there, and ", FormatBytes(free_bytes),
                   " are free; lower --keep, free space, or choose another directory"));
}

void CommitCopies::Start(const std::string& manifest_path) {
  {
    MutexLock lock(mutex_);
    SPILLWAY_CHECK(!busy_);
    busy_ = true;
  }
  thread_.Run([this, manifest_path] {
    absl::Status status = MakeCopy(manifest_path);
    MutexLock lock(mutex_);
    busy_ = false;
    status_ = std::move(status);
    changed_.NotifyAll();
  });
}

bool CommitCopies::busy() {
  MutexLock lock(mutex_);
  return busy_;
}

absl::Status CommitCopies::Wait() {
  if (executor_ != nullptr) executor_->RunUntil([this] { return !busy(); });
  MutexLock lock(mutex_);
  while (busy_) changed_.Wait(mutex_);
  return status_;
}

bool CommitCopies::WaitFor(double seconds) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(std::llround(1e9 * seconds));
  MutexLock lock(mutex_);
  while (busy_ && changed_.WaitUntil(mutex_, deadline)) continue;
  return !busy_;
}

absl::Status CommitCopies::MakeCopy(const std::string& manifest_path) {
  CommitRecord record;
  ASSIGN_OR_RETURN(const auto from,
                   SwapStore::Open(manifest_path, /*read_only=*/true, {}, &record, files_));
  const std::string name = absl::StrFormat("%s%012d", kCopyPrefix, record.step);
  const std::string target = absl::StrCat(directory(), "/", name);
  RETURN_IF_ERROR(RemoveCopy(name));  // of the same step, before the run was resumed
  const absl::Status status = [&]() -> absl::Status {
    RETURN_IF_ERROR(files_.CreateDirectory(target));
    const InPlaceUnits in_place =
        from->in_place() != nullptr ? from->in_place()->places() : InPlaceUnits();
    ASSIGN_OR_RETURN(const auto to, SwapStore::Create(from->layout(), OptionsOf(target, in_place)));
    RETURN_IF_ERROR(CopyStore(*from, *to, kBesideTrainingBytes));
    RETURN_IF_ERROR(CopyModelFiles(SourceDirectory(ParentPath(manifest_path)),
                                   SourceDirectory(target), files_));
    RETURN_IF_ERROR(to->Commit(CommitManifestPath(target), record));
    return files_.SyncDirectory(directory());
  }();
  if (!status.ok()) {
    (void)RemoveCopy(name);
    return Annotate(status, absl::StrCat("copy the commit of step ", record.step));
  }
  return Prune(static_cast<int64_t>(record.step));
}

absl::Status CommitCopies::Prune(int64_t step) {
  int kept = 0;
  std::vector<Copy> removed;
  for (Copy& copy : List()) {
    if (copy.step > step || ++kept > keep_) {
      removed.push_back(std::move(copy));
    } else {
      // Whoever made it may have been killed before it was durable.
      RETURN_IF_ERROR(files_.SyncDirectory(copy.directory));
    }
  }
  if (removed.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(files_.SyncDirectory(directory()));
  for (const Copy& copy : removed) RETURN_IF_ERROR(RemoveCopy(copy.name));
  return absl::OkStatus();
}

absl::Status CommitCopies::RemoveCopy(const std::string& name) const {
  return RemoveCopyFolder(lock_->own(), name);
}

}  // namespace spillway
