#include "engine/train/commit_starter.h"

#include <memory>
#include <optional>

#include "engine/run/run_commit.h"
#include "io/base/clock.h"
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
  {
    const TraceSpan span(recorder_.trace(), SpanKind::kWaitCommit);
    RETURN_IF_ERROR(AwaitEarlierCommit(storage, manager));
  }
  const auto span = std::make_shared<std::optional<TraceSpan>>();
  span->emplace(recorder_.trace(), SpanKind::kCommit);
  const RankGroups& ranks = context_.ranks;
  RETURN_IF_ERROR(StartRunCommit(storage, manager, ranks.world, ranks.commits, state_,
                                 [this, span, step = state_.step] {
                                   span->reset();
                                   last_step_ = step;
                                 }));
  journal_->Commit(state_.step);
  meter_.CountCommit(began);
  return absl::OkStatus();
}

}  // namespace spillway
