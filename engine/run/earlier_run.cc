#include "engine/run/earlier_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/run/run_state.h"
#include "engine/run/swap_inventory.h"
#include "engine/weights/model_files.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// A smaller directory contains a lock and a record, and no state.
constexpr uint64_t kNothingBytes = 16 << 10;

uint64_t AllocatedBytes(const RunDirectory& directory) {
  uint64_t bytes = 0;
  const auto entries = directory.own().List();
  if (!entries.ok()) return 0;
  for (const DirectoryEntry& entry : *entries) bytes += entry.allocated_bytes;
  return bytes;
}

// Removes the folder `name` with its files for which `is_ours(name)` is true; other files stay.
// Returns the bytes removed.
absl::StatusOr<uint64_t> RemoveModelFolder(const OwnDirectory& in, const std::string& name,
                                           bool (*is_ours)(absl::string_view)) {
  const auto directory = in.OpenDirectory(name);
  if (absl::IsNotFound(directory.status())) return 0;
  RETURN_IF_ERROR(directory.status());
  uint64_t bytes = 0;
  if (name != kTemplatesFolder) {
    ASSIGN_OR_RETURN(bytes,
                     RemoveModelFolder(**directory, kTemplatesFolder, [](absl::string_view file) {
                       return absl::EndsWith(file, ".jinja");
                     }));
  }
  ASSIGN_OR_RETURN(const auto entries, (*directory)->List());
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries) {
    if (entry.is_file && is_ours(entry.name)) names.push_back(entry.name);
  }
  ASSIGN_OR_RETURN(const uint64_t removed, (*directory)->RemoveFiles(names));
  bytes += removed;
  if (absl::IsFailedPrecondition(in.RemoveDirectory(name))) {
    LogWarning(absl::StrCat((*directory)->path(), " holds files that no run put there; they stay"));
  }
  return bytes;
}

}  // namespace

std::vector<std::string> OutputFileNames(int rank) {
  return {FileName(ManifestPath("", rank)),
          FileName(PreparedManifestPath("", rank)),
          FileName(FreedManifestPath("", rank)),
          "metrics.jsonl",
          "eval.jsonl",
          "samples.jsonl",
          "report.html",
          "run.json",
          "config.resolved.json",
          "timeline.json",
          "bytes-written",
          kRunIdName};
}

const std::vector<std::string>& OutputDirectoryNames() {
  static const std::vector<std::string>& names =
      *new std::vector<std::string>{"source", "model", "adapter"};
  return names;
}

bool EarlierRun::IsOfThisOutput(const RunRecord& owner) const {
  // If it was moved, a link may be in its place.
  return files_.Resolve(owner.output) == output_->path();
}

bool EarlierRun::IsOfThisRun(const RunRecord& owner) const {
  return !run_id_.empty() && owner.run == run_id_ &&
         (IsOfThisOutput(owner) || ReadRunId(files_.Resolve(owner.output), files_) != run_id_);
}

// True also if OUTPUT was removed and recreated under the same name.
bool EarlierRun::IsOfThisMachinesOutput(const RunRecord& owner) const {
  const RunRecord here = ThisProcess();
  return IsOfThisOutput(owner) && owner.host == here.host && owner.machine == here.machine;
}

absl::Status EarlierRun::CheckCopies(const CommitCopies& copies, bool resume,
                                     bool overwrite) const {
  if (!copies.any()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto owner, copies.locked().ReadOwner());
  if (!owner || IsOfThisRun(*owner) || IsOfThisMachinesOutput(*owner)) return absl::OkStatus();
  // A run killed before its first commit has none to continue from.
  const bool begun = Exists(CommitManifestPath(output_->path(), files_), files_);
  const bool may_resume = !begun && !overwrite;
  if (resume && may_resume) return absl::OkStatus();
  const std::string newest =
      copies.found().empty() ? "" : absl::StrCat(", the newest of step ", copies.found()[0].step);
  return absl::FailedPreconditionError(absl::StrCat(
      "--persist ", copies.directory(), " holds copies of the run in ", owner->output, " on ",
      owner->host, ", begun ", TimeText(owner->since_seconds), newest, ", and this is ",
      output_->path(), ": give another --persist",
      may_resume ? ", or --resume to go on from them" : "",
      "; if that run is no more and nobody needs them, remove the folder; nothing was touched"));
}

absl::Status EarlierRun::CheckOwner(const RunDirectory& directory) const {
  ASSIGN_OR_RETURN(const auto owner, directory.ReadOwner());
  if (!owner) return absl::OkStatus();  // killed before it wrote one, or by an earlier version
  if (IsOfThisRun(*owner)) return absl::OkStatus();
  if (!run_id_.empty() && owner->run == run_id_) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory.path(), " belongs to the run in ", owner->output, ", of which ", output_->path(),
        " is a copy: two runs cannot go on from one state. Resume there, or remove "
        "one of the two; commits copied by --persist can be continued elsewhere"));
  }
  if (IsOfThisMachinesOutput(*owner)) return absl::OkStatus();
  const RunRecord here = ThisProcess();
  return absl::FailedPreconditionError(absl::StrCat(
      directory.path(), " belongs to the run in ", owner->output, " on ", owner->host, ", begun ",
      TimeText(owner->since_seconds), ", and this is ", output_->path(), " on ", here.host,
      ": give another --swap; if that run is no more, remove the directory with "
      "`spillway clean` on its machine"));
}

absl::Status EarlierRun::Claim(const std::string& path) {
  if (found_.contains(path)) return absl::OkStatus();
  auto directory =
      RunDirectory::Open(path, {.output = output_->path(), .create = false, .files = &files_});
  if (absl::IsNotFound(directory.status())) return absl::OkStatus();
  RETURN_IF_ERROR(directory.status());
  RETURN_IF_ERROR((*directory)->CheckEntries(SwapFileNames(), {}, OtherNames::kRefused));
  RETURN_IF_ERROR(CheckOwner(**directory));
  const uint64_t bytes = AllocatedBytes(**directory);
  found_[path] = {*std::move(directory), false, bytes};
  return absl::OkStatus();
}

bool EarlierRun::IsOfAnEarlierPlace(const std::string& parent, const std::string& name) const {
  if (run_id_.empty() || !IsSwapDirectoryName(name)) return false;
  const auto owner = ReadOwnerOf(absl::StrCat(parent, "/", name), files_);
  return owner && IsOfThisRun(*owner);
}

absl::Status EarlierRun::FindBelow(const std::vector<std::string>& parents) {
  // Matches any number of the store.
  const std::string prefix(absl::StripSuffix(SwapDirectoryName(id_, 0), "0"));
  for (const std::string& parent : parents) {
    const auto names = files_.List(parent);
    if (!names.ok()) continue;  // CheckSwapParents reports the error
    for (const std::string& name : *names) {
      if (absl::StartsWith(name, prefix) || IsOfAnEarlierPlace(parent, name)) {
        RETURN_IF_ERROR(Claim(absl::StrCat(parent, "/", name)));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status EarlierRun::FindCommitted(const std::vector<std::string>& directories) {
  for (const std::string& path : directories) {
    // The state of a copy of a commit is beside its manifest.
    if (!IsSwapDirectoryName(FileName(path))) continue;
    RETURN_IF_ERROR(Claim(path));
    if (const auto found = found_.find(path); found != found_.end()) found->second.committed = true;
  }
  return absl::OkStatus();
}

uint64_t EarlierRun::leftover_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [path, found] : found_) {
    if (!found.committed && found.bytes > kNothingBytes) bytes += found.bytes;
  }
  return bytes;
}

std::string EarlierRun::DescribeLeftovers() const {
  std::vector<std::string> parts;
  for (const auto& [path, found] : found_) {
    if (found.committed || found.bytes <= kNothingBytes) continue;
    parts.push_back(absl::StrCat(path, " (", FormatBytes(found.bytes), ")"));
  }
  return absl::StrJoin(parts, ", ");
}

std::vector<SpaceNeed> EarlierRun::Returned(bool committed) const {
  std::vector<SpaceNeed> returned;
  for (const auto& [path, found] : found_) {
    if (!found.committed || committed) returned.push_back({path, found.bytes, ""});
  }
  return returned;
}

std::unique_ptr<RunDirectory> EarlierRun::Take(const std::string& path) {
  const auto found = found_.find(path);
  if (found == found_.end()) return nullptr;
  auto directory = std::move(found->second.directory);
  found_.erase(found);
  return directory;
}

absl::Status EarlierRun::RemoveLeftovers() {
  if (leftover_bytes() > 0) {
    LogInfo(
        absl::StrCat("removing what an earlier run of this output left: ", DescribeLeftovers()));
  }
  for (auto it = found_.begin(); it != found_.end();) {
    if (it->second.committed) {
      ++it;
      continue;
    }
    const auto removed = RunDirectory::Remove(std::move(it->second.directory), SwapFileNames());
    it = found_.erase(it);
    RETURN_IF_ERROR(removed.status());
  }
  return absl::OkStatus();
}

absl::Status EarlierRun::RemoveAll() {
  const std::string manifest = FileName(CommitManifestPath(output_->path(), files_));
  // Removes the commit first: after a kill in the middle the rest is no commit.
  const absl::Status removed = output_->own().Remove(manifest);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  if (removed.ok()) RETURN_IF_ERROR(files_.SyncDirectory(output_->path()));
  uint64_t swap_bytes = 0;
  std::string directories;
  for (auto& [path, found] : found_) {
    ASSIGN_OR_RETURN(const uint64_t bytes,
                     RunDirectory::Remove(std::move(found.directory), SwapFileNames()));
    swap_bytes += bytes;
    absl::StrAppend(&directories, directories.empty() ? " in " : ", ", path);
  }
  found_.clear();
  ASSIGN_OR_RETURN(uint64_t bytes, output_->own().RemoveFiles(OutputFileNames(rank_)));
  for (const std::string& name : OutputDirectoryNames()) {
    ASSIGN_OR_RETURN(const uint64_t more, RemoveModelFolder(output_->own(), name, IsModelFileName));
    bytes += more;
  }
  if (directories.empty() && bytes == 0) return absl::OkStatus();  // there was nothing
  LogInfo(absl::StrCat("removed the earlier run: ", FormatBytes(swap_bytes), " of swap",
                       directories, " and ", FormatBytes(bytes), " in ", output_->path()));
  return absl::OkStatus();
}

}  // namespace spillway
