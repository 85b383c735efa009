// OUTPUT of a run, or a rank's own directory in it: created if missing, locked during the run, and
// removed if the run produced nothing. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/run/run_directory.h"
#include "io/file_system.h"

namespace spillway {

class OutputDirectory {
 public:
  // Creates the directory durably, with its parents. kInvalidArgument if `path` is not a directory;
  // otherwise the errors of RunDirectory::Open and of CheckEntries for a run's entries. `files`
  // outlives the object.
  static absl::StatusOr<std::unique_ptr<OutputDirectory>> Open(const std::string& path, int rank,
                                                               FileSystem& files);
  // Removes the run's id if this process created it and nothing else is in OUTPUT, and then OUTPUT
  // and its parents, if they were created here.
  ~OutputDirectory();

  const std::string& path() const { return directory_->path(); }
  const RunDirectory& directory() const { return *directory_; }

  // OUTPUT/run-id; empty if there is none, until DrawRunId.
  const std::string& run_id() const { return run_id_; }
  absl::Status DrawRunId();
  // Keeps OUTPUT and the id, which is needed to find the run's directories on swap paths.
  void Keep() { kept_ = true; }
  // Call when the run that had this id was removed.
  void ForgetRunId() { run_id_.clear(); }

 private:
  OutputDirectory(FileSystem& files, int rank) : files_(files), rank_(rank) {}
  // Whether the directory has only these entries and the lock.
  bool HoldsOnly(const std::vector<std::string>& names) const;

  FileSystem& files_;
  const int rank_;
  std::unique_ptr<RunDirectory> directory_;
  bool was_empty_ = false;            // the directory was empty at Open
  std::vector<std::string> created_;  // directories that Open created, deepest first
  std::string run_id_;
  bool run_id_drawn_ = false;
  bool kept_ = false;
};

}  // namespace spillway
