#include "engine/state_source.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "io/status.h"
#include "swap/store_reader.h"

namespace spillway {

absl::Status CheckModelFitsLayout(const ModelDescription& model, const StateLayout& layout) {
  bool fits = static_cast<int>(model.units.size()) == layout.num_units();
  for (int unit = 0; fits && unit < layout.num_units(); ++unit) {
    fits = model.units[unit].flat_parameters == layout.units()[unit].parameters;
  }
  if (fits) return absl::OkStatus();
  return WrongBytesError("the commit's run state names other parameters than its tiles hold");
}

StateSource CommittedRun::source() const {
  StateSource source;
  source.model = state.model;
  source.layout = store->layout();
  source.dtype = state.dtype;
  source.read = [store = store.get()](int first, int last, const SwapManager::FillTile& visit) {
    return ReadStore(*store, first, last, visit);
  };
  return source;
}

absl::StatusOr<CommittedRun> OpenCommit(const std::string& manifest_path) {
  CommittedRun run;
  run.directory = std::filesystem::path(manifest_path).parent_path().string();
  CommitRecord record;
  ASSIGN_OR_RETURN(run.store, SwapStore::Open(manifest_path, /*read_only=*/true, {}, &record));
  ASSIGN_OR_RETURN(run.state, DecodeRunState(record.engine_state));
  RETURN_IF_ERROR(CheckModelFitsLayout(run.state.model, run.store->layout()));
  return run;
}

absl::StatusOr<CommittedRun> OpenCommittedRun(const std::string& output) {
  absl::StatusOr<CommittedRun> run = OpenCommit(CommitManifestPath(output));
  if (absl::IsNotFound(run.status())) {
    return absl::NotFoundError(absl::StrCat("there is no commit in ", output));
  }
  if (!run.ok()) return Annotate(run.status(), absl::StrCat("the commit in ", output));
  return run;
}

absl::StatusOr<RunState> ReadCommittedState(const std::string& output) {
  ASSIGN_OR_RETURN(CommittedRun run, OpenCommittedRun(output));
  return std::move(run.state);
}

}  // namespace spillway
