// The directories below swap paths in which a run stores its state, each locked and marked as the
// run's. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/options/train_options.h"
#include "engine/run/earlier_run.h"
#include "engine/run/output_directory.h"
#include "engine/run/run_directory.h"
#include "io/file_system.h"
#include "swap/store/swap_store.h"

namespace spillway {

// The given swap paths, absolute; OUTPUT if there are none. A remaining {rank} in them is that of a
// run with one rank.
std::vector<std::string> SwapParents(const TrainOptions& options, FileSystem& files);

// Prefix of the names of an output's directories below swap paths (SwapDirectoryName).
std::string SwapIdOf(const std::string& output);

// The directories of `store`, named as by SwapParents: a parent may have become a link since.
std::vector<std::string> DirectoriesOf(const SwapStore& store, FileSystem& files);

class SwapDirectories {
 public:
  // `files` outlives the object.
  explicit SwapDirectories(FileSystem* files) : files_(*files) {}

  // Locks `paths`, created if missing, and marks them with the run's id, which is created in
  // `output` if it has none. `earlier` may hold their locks already.
  absl::Status Lock(const std::vector<std::string>& paths, OutputDirectory& output,
                    EarlierRun& earlier);

  bool empty() const { return directories_.empty(); }
  // Whether one of them is among `paths`.
  bool AnyIn(const std::vector<std::string>& paths) const;

  // kUnavailable if one of them, or the swap file in it, was removed.
  absl::Status CheckStillThere() const;

  // Removes them with all files of the run; warns of what remains. Returns whether nothing does.
  bool Remove();

 private:
  FileSystem& files_;
  std::vector<std::unique_ptr<RunDirectory>> directories_;
};

// kUnavailable if the path of `directory` now leads elsewhere. `what`: "OUTPUT".
absl::Status CheckStillNamed(const RunDirectory& directory, const char* what);

}  // namespace spillway
