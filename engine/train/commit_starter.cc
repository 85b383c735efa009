#include "engine/train/commit_starter.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/run/rank_commit.h"
#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/base/trace.h"

namespace spillway {

CommitStarter::CommitStarter(const RunContext* context, const RunSetup* setup, StepMeter* meter,
                             StepRecorder* recorder, RunState* state)
    : context_(*context),
      setup_(*setup),
      meter_(*meter),
      recorder_(*recorder),
      state_(*state),
      last_step_(context->storage->committed() ? state->step : 0) {}

absl::Status CommitStarter::Start(bool finished) {
  const double began = MonotonicSeconds();
  RunStorage& storage = *context_.storage;
  SwapManager& manager = *setup_.manager();
  RETURN_IF_ERROR(setup_.memory()->AwaitProgram());
  RETURN_IF_ERROR(storage.CheckStillThere());
  state_.finished = finished;
  state_.buffers = context_.compute->Buffers();
  RETURN_IF_ERROR(journal_->Sync());
  std::string manifest = storage.manifest_path();
  std::function<absl::Status()> publish;
  if (const RankGroups& ranks = context_.ranks; ranks.world != nullptr) {
    ASSIGN_OR_RETURN(state_.part.commit_id, NewCommitId(*ranks.world, state_.step));
    manifest = PreparedManifestPath(storage.output());
    publish = [&storage, &ranks] { return PublishCommit(storage.output(), *ranks.commits); };
  }
  CommitCopies* const copies = storage.copies();
  {
    const TraceSpan span(recorder_.trace(), SpanKind::kWaitCommit);
    RETURN_IF_ERROR(manager.AwaitNoCommit());
    // The commit being copied must stay until it is, and this one would replace it.
    const absl::Status status = copies != nullptr ? copies->Wait() : absl::OkStatus();
    if (!status.ok()) LogWarning(status.message());
  }
  const auto span = std::make_shared<std::optional<TraceSpan>>();
  span->emplace(recorder_.trace(), SpanKind::kCommit);
  RETURN_IF_ERROR(manager.StartCommit(
      manifest, {static_cast<uint64_t>(state_.step), EncodeRunState(state_)},
      [this, copies, manifest, span, step = state_.step] {
        span->reset();
        last_step_ = step;
        if (copies != nullptr) copies->Start(manifest);
      },
      std::move(publish)));
  journal_->Commit(state_.step);
  meter_.CountCommit(began);
  return absl::OkStatus();
}

}  // namespace spillway
