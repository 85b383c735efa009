// The directories below swap paths in which a run keeps its state, each locked and marked as the
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

// The swap paths as given, absolute; OUTPUT where there are none. What is still {rank} in them is
// that of a run of one rank.
std::vector<std::string> SwapParents(const TrainOptions& options, FileSystem& files);

// What the names of an output's directories below swap paths begin with (SwapDirectoryName).
std::string SwapIdOf(const std::string& output);

// Where `store` is, by the names that SwapParents gives: a parent may have become a link since.
std::vector<std::string> DirectoriesOf(const SwapStore& store, FileSystem& files);

class SwapDirectories {
 public:
  // `files` outlives it.
  explicit SwapDirectories(FileSystem* files) : files_(*files) {}

  // Locks `paths`, made where missing, and marks them with the run's id, which `output` gets where
  // it has none. `earlier` may hold their locks already.
  absl::Status Lock(const std::vector<std::string>& paths, OutputDirectory& output,
                    EarlierRun& earlier);

  bool empty() const { return directories_.empty(); }
  // Whether one of them is among `paths`.
  bool AnyIn(const std::vector<std::string>& paths) const;

  // kUnavailable where somebody removed one of them, or the swap file in it.
  absl::Status CheckStillThere() const;

  // Removes them with all that the run put there; warns of what stays. Whether nothing does.
  bool Remove();

 private:
  FileSystem& files_;
  std::vector<std::unique_ptr<RunDirectory>> directories_;
};

// kUnavailable where the name of `directory` leads elsewhere by now. `what`: "OUTPUT".
absl::Status CheckStillNamed(const RunDirectory& directory, const char* what);

}  // namespace spillway
