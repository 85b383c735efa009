// What an earlier run of the same OUTPUT left, in OUTPUT and below swap paths: found and
// locked before anything is changed, named with its size, and removed only when told to.
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

// Files and directories that a rank makes in its OUTPUT, the lock aside. Everything else there is
// somebody else's and never touched.
std::vector<std::string> OutputFileNames(int rank);
const std::vector<std::string>& OutputDirectoryNames();

class EarlierRun {
 public:
  // Of rank `rank`. `run_id` of OUTPUT, empty where it has none; `id` as in SwapDirectoryName.
  // `output` and `files` outlive it.
  EarlierRun(const RunDirectory* output, int rank, std::string run_id, std::string id,
             FileSystem* files)
      : output_(output),
        rank_(rank),
        run_id_(std::move(run_id)),
        id_(std::move(id)),
        files_(*files) {}

  // Locks the run's swap directories below `parents`, those that exist, also what it made where
  // its OUTPUT was before that was moved. kFailedPrecondition
  // where one is in use, or is another run's (a machine that shares the path, a copied OUTPUT),
  // or holds what no run put there.
  absl::Status FindBelow(const std::vector<std::string>& parents);
  // The same for those that the commit in OUTPUT names, which are no leftovers.
  absl::Status FindCommitted(const std::vector<std::string>& directories);

  // That copies of commits in `copies` (--persist) are this run's to go on from or, as `overwrite`
  // says, to remove. One that has no commit of its own may `resume` from another's, and takes them
  // over. kFailedPrecondition, naming the other run, where they are none of this one's.
  absl::Status CheckCopies(const CommitCopies& copies, bool resume, bool overwrite) const;

  // Of directories that no commit names: the bytes in them, and "DIR (12 MiB), DIR (...)".
  uint64_t leftover_bytes() const;
  std::string DescribeLeftovers() const;
  // What RemoveLeftovers gives back, for CheckSpace; with `committed` also the commit's.
  std::vector<SpaceNeed> Returned(bool committed) const;

  // Hands over the lock of a directory that was found (null: it was not). What is in it stays.
  std::unique_ptr<RunDirectory> Take(const std::string& path);

  // Removes the directories that no commit names and that were not taken; says so, once, with
  // their size.
  absl::Status RemoveLeftovers();
  // Removes all that the earlier run left: its commit first, then swap, results, model.
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
  // Of this run, and OUTPUT is no copy of the owner's.
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
