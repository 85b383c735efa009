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
#include "engine/run/committed_run.h"
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

// Creates nested folders of these names in the open directory, each durable in its parent,
// independent of the directory's path.
absl::Status CreateWithin(const OwnDirectory& own, absl::Span<const std::string> names) {
  const absl::Status made = own.CreateDirectory(names.front());
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  RETURN_IF_ERROR(own.Sync());
  if (names.size() == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto next, own.OpenDirectory(names.front()));
  return CreateWithin(*next, names.subspan(1));
}

}  // namespace

CommitCopies::CommitCopies(std::string directory, const Options& options)
    : directory_(std::move(directory)), options_(options), thread_(1, options.executor) {}

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
                                                                 const Options& options) {
  SPILLWAY_CHECK(options.keep >= 1);
  FileSystem& files = *options.files;
  auto copies = std::unique_ptr<CommitCopies>(new CommitCopies(directory, options));
  if (options.rank > 0) {
    auto seen = files.OpenOwn(directory, DirectoryUse::kForOurs);
    if (absl::IsNotFound(seen.status())) {
      return absl::FailedPreconditionError(
          absl::StrCat("--persist ", directory, ": rank ", options.rank,
                       " does not see what the first rank has there; give a directory that all "
                       "ranks share, as --output is"));
    }
    if (!seen.ok()) return Annotate(seen.status(), "--persist");
    copies->seen_ = *std::move(seen);
    return copies;
  }
  const bool created = !files.Stat(directory, SymbolicLink::kFollow).ok();
  // A failure here is reported by RunDirectory.
  CreateDirectories(files, ParentPath(directory), FileAccess::kPrivate).IgnoreError();
  auto lock = RunDirectory::Open(directory, {.files = &files});
  if (!lock.ok()) return Annotate(lock.status(), "--persist");
  copies->lock_ = *std::move(lock);
  copies->created_ = created;
  for (const Copy& copy : copies->List()) {
    const absl::Status checked = CheckCopyFolder(copies->lock_->own(), copy.name);
    if (!checked.ok()) return Annotate(checked, "--persist");
    (copies->IsWhole(copy) ? copies->found_ : copies->unfinished_).push_back(copy);
  }
  // Ensures that the folders checked by path are those removed through the open directory.
  RETURN_IF_ERROR(copies->CheckStillThere());
  return copies;
}

absl::Status CommitCopies::CheckStillThere() const {
  if (own().IsStillNamed()) return absl::OkStatus();
  const auto now = files_.Stat(directory());
  return absl::UnavailableError(absl::StrCat(
      "--persist ", directory(),
      absl::IsNotFound(now.status())
          ? " is not there any more"
          : " is another directory than the run began with (it was replaced, or something was "
            "mounted or unmounted there)",
      ": commits are not copied until it is back; --resume with another --persist begins a new "
      "one"));
}

// Whether all manifests that belong to one commit exist. Whether the copy is good is checked when a
// run is to continue from it.
bool CommitCopies::IsWhole(const Copy& copy) const {
  const auto run = OpenCommit(ManifestPath(copy.directory, 0), files_);
  if (absl::IsNotFound(run.status())) return false;
  for (int rank = 1; run.ok() && rank < run->state.part.ranks; ++rank) {
    const auto part = OpenCommit(ManifestPath(RankOutput(copy.directory, rank), rank), files_);
    if (absl::IsNotFound(part.status())) return false;
    if (part.ok() && part->state.part.commit_id != run->state.part.commit_id) return false;
  }
  return true;
}

uint64_t CommitCopies::AllocatedBytes(const std::string& directory) const {
  uint64_t bytes = 0;
  const auto names = files_.List(directory);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::string path = absl::StrCat(directory, "/", name);
    const auto info = files_.Stat(path);
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

absl::StatusOr<bool> CommitCopies::GoOnFrom(int64_t step) {
  RETURN_IF_ERROR(RemoveUnfinished());
  for (const Copy& copy : found_) {
    if (copy.step > step) {
      RETURN_IF_ERROR(RemoveCopy(copy.name));
    } else if (copy.step == step) {
      RETURN_IF_ERROR(Prune(step));
      return true;
    }
  }
  return false;
}

// Every folder with a copy's name, complete or not, newest first.
std::vector<CommitCopies::Copy> CommitCopies::List() const {
  std::vector<Copy> copies;
  const auto entries = own().List();
  for (const DirectoryEntry& entry : entries.ok() ? *entries : std::vector<DirectoryEntry>()) {
    Copy copy;
    copy.directory = absl::StrCat(directory(), "/", entry.name);
    copy.name = entry.name;
    if (entry.is_directory && absl::StartsWith(entry.name, kCopyPrefix) &&
        absl::SimpleAtoi(absl::StripPrefix(entry.name, kCopyPrefix), &copy.step)) {
      copies.push_back(std::move(copy));
    }
  }
  std::sort(copies.begin(), copies.end(),
            [](const Copy& a, const Copy& b) { return a.step > b.step; });
  return copies;
}

uint64_t CommitCopies::NeededBytes(const StateLayout& layout, const InPlaceUnits& in_place,
                                   bool afresh) const {
  if (!first()) return 0;
  const uint64_t there = afresh ? 0 : std::min<size_t>(options_.keep, found_.size());
  return (options_.keep + 1 - there) * options_.ranks *
         SwapStore::StorageBytes(layout, OptionsOf(directory(), in_place));
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
  return absl::ResourceExhaustedError(absl::StrCat(
      "--persist ", directory(), ": ", options_.keep, " commits and one being written need ",
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
    CountMissed(status);
    status_ = std::move(status);
    changed_.NotifyAll();
  });
}

bool CommitCopies::busy() {
  MutexLock lock(mutex_);
  return busy_;
}

absl::Status CommitCopies::Wait() {
  if (options_.executor != nullptr) options_.executor->RunUntil([this] { return !busy(); });
  MutexLock lock(mutex_);
  while (busy_) changed_.Wait(mutex_);
  return status_;
}

void CommitCopies::CountMissed(const absl::Status& status) {
  if (status.ok()) return;
  ++missed_;
  missed_why_ = std::string(status.message());
}

std::string CommitCopies::Missed() {
  MutexLock lock(mutex_);
  if (missed_ == 0) return "";
  return absl::StrCat(missed_ == 1 ? "a commit was" : absl::StrCat(missed_, " commits were"),
                      " not copied to ", directory(), " (", missed_why_, ")");
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
  ASSIGN_OR_RETURN(const auto from, SwapStore::Open(manifest_path, /*read_only=*/true, {}, &record,
                                                    files_, options_.model_directory));
  const std::string name = absl::StrFormat("%s%012d", kCopyPrefix, record.step);
  last_step_ = static_cast<int64_t>(record.step);
  RETURN_IF_ERROR(CheckStillThere());
  // An older folder of the same step is of a run that was resumed from before that step. With
  // several ranks there is none (GoOnFrom) but the one that the ranks make together.
  RETURN_IF_ERROR(options_.ranks == 1 ? RemoveCopy(name)
                                      : own().CheckEntries({}, {name}, OtherNames::kIgnored));
  const absl::Status status = CopyPart(manifest_path, *from, record, name);
  if (!status.ok()) {
    if (options_.ranks == 1) (void)RemoveCopy(name);
    return Annotate(status, absl::StrCat("copy the commit of step ", record.step));
  }
  return options_.ranks == 1 ? Prune(last_step_) : absl::OkStatus();
}

absl::Status CommitCopies::CopyPart(const std::string& manifest_path, const SwapStore& from,
                                    const CommitRecord& record, const std::string& name) const {
  const std::string target = RankOutput(absl::StrCat(directory(), "/", name), options_.rank);
  // Every level is durable in its parent before there is a manifest. The following paths lead
  // nowhere if the directory was replaced, since the new one lacks this folder.
  std::vector<std::string> levels = {name};
  if (options_.rank > 0) levels.insert(levels.end(), {kRanksName, FileName(target)});
  RETURN_IF_ERROR(CreateWithin(own(), levels));
  const InPlaceUnits in_place =
      from.in_place() != nullptr ? from.in_place()->places() : InPlaceUnits();
  ASSIGN_OR_RETURN(const auto to, SwapStore::Create(from.layout(), OptionsOf(target, in_place)));
  RETURN_IF_ERROR(CopyStore(from, *to, kBesideTrainingBytes));
  if (options_.rank == 0) {
    RETURN_IF_ERROR(CopyModelFiles(SourceDirectory(ParentPath(manifest_path)),
                                   SourceDirectory(target), files_));
  }
  RETURN_IF_ERROR(CheckStillThere());
  return to->Commit(ManifestPath(target, options_.rank), record);
}

absl::Status CommitCopies::Conclude(bool made) {
  const int64_t step = std::exchange(last_step_, 0);
  if (!first() || options_.ranks == 1 || step == 0) return absl::OkStatus();
  const absl::Status status = ConcludeStep(step, made);
  MutexLock lock(mutex_);
  // A failure of this rank was counted before.
  if (!made && status_.ok())
    CountMissed(absl::UnavailableError("another rank's part was not made"));
  if (made) CountMissed(status);
  return status;
}

absl::Status CommitCopies::ConcludeStep(int64_t step, bool made) {
  for (const Copy& copy : List()) {
    if (copy.step != step) continue;
    if (!made) return RemoveCopy(copy.name);
    RETURN_IF_ERROR(CheckStillThere());
    if (IsWhole(copy)) return Prune(step);
  }
  if (!made) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the first rank does not see the other ranks' parts of the copy of step ", step,
                   " in --persist ", directory(), "; give a directory that all ranks share"));
}

absl::Status CommitCopies::Prune(int64_t step) {
  RETURN_IF_ERROR(CheckStillThere());
  int kept = 0;
  std::vector<Copy> removed;
  for (Copy& copy : List()) {
    if (!IsWhole(copy) || copy.step > step || ++kept > options_.keep) {
      removed.push_back(std::move(copy));
    } else {
      // The process that made the copy may have been killed before it was durable.
      RETURN_IF_ERROR(SyncCopy(copy));
    }
  }
  if (removed.empty()) return absl::OkStatus();
  // Ensures that the folders judged by path are those removed.
  RETURN_IF_ERROR(CheckStillThere());
  RETURN_IF_ERROR(own().Sync());
  for (const Copy& copy : removed) RETURN_IF_ERROR(RemoveCopy(copy.name));
  return absl::OkStatus();
}

absl::Status CommitCopies::SyncCopy(const Copy& copy) const {
  RETURN_IF_ERROR(files_.SyncDirectory(copy.directory));
  const std::string ranks = absl::StrCat(copy.directory, "/", kRanksName);
  const auto names = files_.List(ranks);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  RETURN_IF_ERROR(names.status());
  RETURN_IF_ERROR(files_.SyncDirectory(ranks));
  for (const std::string& name : *names) {
    RETURN_IF_ERROR(files_.SyncDirectory(absl::StrCat(ranks, "/", name)));
  }
  return absl::OkStatus();
}

absl::Status CommitCopies::RemoveCopy(const std::string& name) const {
  return RemoveCopyFolder(lock_->own(), name);
}

}  // namespace spillway
