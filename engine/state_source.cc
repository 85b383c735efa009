#include "engine/state_source.h"

#include "absl/strings/str_cat.h"
#include "io/status.h"
#include "swap/store_reader.h"

namespace spillway {

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

absl::StatusOr<CommittedRun> OpenCommittedRun(const std::string& output) {
  CommittedRun run;
  run.directory = output;
  CommitRecord record;
  auto store = SwapStore::Open(CommitManifestPath(output), /*read_only=*/true, {}, &record);
  if (absl::IsNotFound(store.status())) {
    return absl::NotFoundError(absl::StrCat("there is no commit in ", output));
  }
  if (!store.ok()) return Annotate(store.status(), absl::StrCat("the commit in ", output));
  run.store = *std::move(store);
  ASSIGN_OR_RETURN(run.state, DecodeRunState(record.engine_state));
  return run;
}

absl::StatusOr<RunState> ReadCommittedState(const std::string& output) {
  ASSIGN_OR_RETURN(CommittedRun run, OpenCommittedRun(output));
  return std::move(run.state);
}

}  // namespace spillway
