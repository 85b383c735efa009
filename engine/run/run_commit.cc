#include "engine/run/run_commit.h"

#include <string>
#include <utility>

#include "engine/run/rank_commit.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {

absl::Status AwaitCopies(RunStorage& storage, Collectives* world) {
  CommitCopies* const copies = storage.copies();
  if (copies == nullptr) return absl::OkStatus();
  const absl::Status own = copies->Wait();
  if (world == nullptr) return own;
  const absl::Status made = Agree(*world, own);
  const absl::Status concluded = Agree(*world, copies->Conclude(made.ok()));
  return made.ok() ? concluded : made;
}

absl::Status AwaitEarlierCommit(RunStorage& storage, SwapManager& manager, Collectives* world) {
  RETURN_IF_ERROR(manager.AwaitNoCommit());
  const absl::Status status = AwaitCopies(storage, world);
  if (!status.ok()) LogWarning(status.message());
  return absl::OkStatus();
}

absl::Status StartRunCommit(RunStorage& storage, SwapManager& manager, Collectives* world,
                            Collectives* commits, RunState& state, std::function<void()> durable) {
  std::string manifest = storage.manifest_path();
  PublishCommitHere publish;
  if (world != nullptr) {
    ASSIGN_OR_RETURN(state.part.commit_id, NewCommitId(*world, state.step, storage.files()));
    manifest = storage.prepared_manifest_path();
    publish = [&storage, commits](const absl::Status& made, bool* only_lost) {
      return PublishCommit(storage.output(), *commits, made, only_lost, storage.files());
    };
  }
  CommitCopies* const copies = storage.copies();
  return manager.StartCommit(
      manifest, {static_cast<uint64_t>(state.step), EncodeRunState(state)},
      [copies, committed = storage.manifest_path(), durable = std::move(durable)] {
        if (copies != nullptr) copies->Start(committed);
        durable();
      },
      std::move(publish));
}

}  // namespace spillway
