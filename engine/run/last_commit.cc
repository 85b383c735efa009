#include "engine/run/last_commit.h"

#include "absl/strings/str_cat.h"
#include "engine/run/committed_run.h"
#include "engine/run/run_state.h"
#include "io/base/log.h"
#include "swap/store/manifest.h"

namespace spillway {
namespace {

constexpr int kMostReads = 10;

// The manifest's bytes, "" if there is none. They differ from any other commit's, since they have
// the generation of each tile.
std::string LastManifest(const std::string& output, FileSystem& files) {
  const auto text = files.ReadSmallFile(CommitManifestPath(output, files), kMostManifestBytes);
  return text.ok() ? *text : "";
}

}  // namespace

absl::Status ReadLastCommit(const std::string& output, const std::function<absl::Status()>& read,
                            FileSystem& files) {
  std::string before = LastManifest(output, files);
  for (int attempt = 1;; ++attempt) {
    const absl::Status status = read();
    if (!absl::IsDataLoss(status) && !absl::IsNotFound(status)) return status;
    std::string now = LastManifest(output, files);
    if (now == before) return status;
    const auto state = ReadManifestState(CommitManifestPath(output, files), files);
    const std::string step = state.ok() ? absl::StrCat("step ", state->step) : "another step";
    if (attempt == kMostReads) {
      return absl::UnavailableError(absl::StrCat(
          output, ": the run commits (", step,
          " by now) faster than its state can be read; try again later, or read a copy of a commit "
          "(train --persist)"));
    }
    LogInfo(absl::StrCat("the run has committed ", step,
                         " meanwhile: reading that one instead of the one before"));
    before = std::move(now);
  }
}

}  // namespace spillway
