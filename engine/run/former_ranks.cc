#include "engine/run/former_ranks.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/run/committed_run.h"
#include "engine/run/earlier_run.h"
#include "engine/run/run_directory.h"
#include "engine/run/run_state.h"
#include "engine/run/swap_directories.h"
#include "engine/run/swap_inventory.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

absl::Status RemoveRank(const std::string& output, const std::string& directory,
                        std::vector<std::string> parents, FileSystem& files) {
  ASSIGN_OR_RETURN(auto own, RunDirectory::Open(directory, {.output = output,
                                                            .create = false,
                                                            .access = FileAccess::kReadable,
                                                            .files = &files}));
  EarlierRun earlier(own.get(), RankByName(directory), ReadRunId(directory, files),
                     SwapIdOf(directory), &files);
  parents.push_back(directory);
  RETURN_IF_ERROR(earlier.FindBelow(parents));
  const auto run = OpenCommittedRun(directory, files);
  if (run.ok() && run->state.part.rank == 0) {
    return absl::FailedPreconditionError(absl::StrCat(directory, " is the OUTPUT of another run"));
  }
  if (run.ok()) RETURN_IF_ERROR(earlier.FindCommitted(DirectoriesOf(*run->store, files)));
  RETURN_IF_ERROR(earlier.RemoveAll());
  return RunDirectory::Remove(std::move(own), {}).status();
}

}  // namespace

void RemoveFormerRanks(const std::string& output, int ranks,
                       const std::vector<std::string>& parents, FileSystem& files) {
  const std::string parent = absl::StrCat(output, "/", kRanksName);
  const auto names = files.List(parent);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    int rank = 0;
    if (!absl::SimpleAtoi(name, &rank) || rank < ranks) continue;
    const absl::Status removed =
        RemoveRank(output, absl::StrCat(parent, "/", name), parents, files);
    if (!removed.ok()) {
      LogWarning(absl::StrCat("the former rank ", name, "'s files stay: ", removed.message()));
    }
  }
  files.RemoveDirectory(parent).IgnoreError();  // if it is empty
}

}  // namespace spillway
