// OUTPUT of a run, or a rank's own directory in it: made where it is missing, locked while the run
// lives, and taken back where nothing came of it. One thread.
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
  // Durable, with every parent that it makes. kInvalidArgument where `path` is no directory; else
  // as RunDirectory::Open, and with CheckEntries of what a run keeps there. `files` outlives it.
  static absl::StatusOr<std::unique_ptr<OutputDirectory>> Open(const std::string& path, int rank,
                                                               FileSystem& files);
  // Takes back the run's id where this process drew it and nothing else came into OUTPUT, and then
  // OUTPUT itself and its parents, where they were made here.
  ~OutputDirectory();

  const std::string& path() const { return directory_->path(); }
  const RunDirectory& directory() const { return *directory_; }

  // OUTPUT/run-id: empty until DrawRunId, where there is none.
  const std::string& run_id() const { return run_id_; }
  absl::Status DrawRunId();
  // It stays, with the id: by that what the run leaves on swap paths is found.
  void Keep() { kept_ = true; }
  // The run that had it was removed.
  void ForgetRunId() { run_id_.clear(); }

 private:
  OutputDirectory(FileSystem& files, int rank) : files_(files), rank_(rank) {}
  // The lock aside.
  bool HoldsOnly(const std::vector<std::string>& names) const;

  FileSystem& files_;
  const int rank_;
  std::unique_ptr<RunDirectory> directory_;
  bool was_empty_ = false;            // nothing was in it when this run came
  std::vector<std::string> created_;  // it and its parents that were not there, deepest first
  std::string run_id_;
  bool run_id_drawn_ = false;
  bool kept_ = false;
};

}  // namespace spillway
