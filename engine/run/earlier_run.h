// The files that an earlier run of the same OUTPUT left in OUTPUT and below swap paths. They are
// found and locked before anything is changed, reported with its size, and removed only on request.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/machine/disk_space.h"
#include "engine/run/commit_copies.h"
#include "engine/run/run_directory.h"
#include "io/file_system.h"

namespace spillway {

// Files and directories that a rank creates in its OUTPUT, except the lock. All other entries
// belong to the user and are never touched.
std::vector<std::string> OutputFileNames(int rank);
const std::vector<std::string>& OutputDirectoryNames();

class EarlierRun {
 public:
  // `run_id`: of OUTPUT, empty if it has none; `id`: as in SwapDirectoryName. `output` and `files`
  // outlive the object.
  EarlierRun(const RunDirectory* output, int rank, std::string run_id, std::string id,
             FileSystem* files)
      : output_(output),
        rank_(rank),
        run_id_(std::move(run_id)),
        id_(std::move(id)),
        files_(*files) {}

  // Locks the run's existing swap directories below `parents`, including those it created before
  // its OUTPUT was moved. kFailedPrecondition if one is in use, belongs to another run (a machine
  // that shares the path, a copied OUTPUT), or has entries that no run created.
  absl::Status FindBelow(const std::vector<std::string>& parents);
  // Locks the directories that the commit in OUTPUT names; they do not count as leftovers.
  absl::Status FindCommitted(const std::vector<std::string>& directories);

  // Checks that the copies of commits in `copies` (--persist) are this run's, to continue from or,
  // with `overwrite`, to remove. A run without a commit of its own may `resume` from another run's
  // and take them over. kFailedPrecondition, naming the other run, otherwise.
  absl::Status CheckCopies(const CommitCopies& copies, bool resume, bool overwrite) const;

  // Bytes in directories that no commit names, and their list "DIR (12 MiB), DIR (...)".
  uint64_t leftover_bytes() const;
  std::string DescribeLeftovers() const;
  // Space freed by RemoveLeftovers, for CheckSpace; with `committed` also by the commit.
  std::vector<SpaceNeed> Returned(bool committed) const;

  // Transfers the lock of a directory that was found (null: it was not), without removing its
  // content.
  std::unique_ptr<RunDirectory> Take(const std::string& path);

  // Removes the directories that no commit names and that were not taken; logs it once, with their
  // size.
  absl::Status RemoveLeftovers();
  // Removes everything of the earlier run: first its commit, then swap, results and model.
  absl::Status RemoveAll();

 private:
  struct Found {
    std::unique_ptr<RunDirectory> directory;
    bool committed = false;
    uint64_t bytes = 0;
  };
  absl::Status Claim(const std::string& path);
  absl::Status CheckOwner(const RunDirectory& directory) const;
  bool IsOfThisOutput(const RunRecord& owner) const;
  bool IsOfThisMachinesOutput(const RunRecord& owner) const;
  // Whether `owner` is this run, and OUTPUT is not a copy of the owner's.
  bool IsOfThisRun(const RunRecord& owner) const;
  bool IsOfAnEarlierPlace(const std::string& parent, const std::string& name) const;

  const RunDirectory* const output_;
  const int rank_;
  const std::string run_id_;
  const std::string id_;
  FileSystem& files_;
  std::map<std::string, Found> found_;  // by path
};

}  // namespace spillway
