#include "engine/train/commit_starter.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/ranks/patient_ranks.h"
#include "engine/run/run_commit.h"
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
      schedule_(setup->commit_schedule()),
      last_step_(std::make_shared<std::atomic<int64_t>>(context->storage->committed() ? state->step
                                                                                      : 0)) {}

void CommitStarter::BeginSteps() { schedule_.Begin(MonotonicSeconds()); }

bool CommitStarter::IsDueByTime() const { return schedule_.IsDueByTime(MonotonicSeconds()); }

absl::Status CommitStarter::AfterStep(bool stop) {
  const TrainOptions& options = context_.options;
  if (options.no_commit) return absl::OkStatus();
  const bool ends = stop || state_.step == options.steps;
  due_ |= ends || schedule_.IsDueBySteps(state_.step);
  if (!due_) return absl::OkStatus();
  if (!ends && context_.storage->copies() != nullptr) {
    ASSIGN_OR_RETURN(const bool copied, FormerIsCopied());
    if (!copied) return absl::OkStatus();
  }
  due_ = put_off_ = false;
  return Start();
}

// False if the copy of the last commit takes too long. A copy that failed is reported by Start.
absl::StatusOr<bool> CommitStarter::FormerIsCopied() {
  const double began = MonotonicSeconds();
  const TraceSpan span(recorder_.trace(), SpanKind::kWaitCommit);
  RETURN_IF_ERROR(setup_.memory()->AwaitProgram());
  RETURN_IF_ERROR(setup_.manager()->AwaitNoCommit());
  CommitCopies& copies = *context_.storage->copies();
  const std::unique_ptr<PatientRanks> world = PatientRanks::Among(context_.ranks);
  bool copied = copies.WaitFor(put_off_ ? 0 : context_.copy_patience_seconds);
  if (world != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> all, AllGatherCount(*world, copied));
    copied = std::find(all.begin(), all.end(), 0) == all.end();
  }
  meter_.CountCommit(began);
  if (!copied && !std::exchange(put_off_, true)) {
    LogInfo(absl::StrCat("the commit of step ", state_.step, " is put off until that of step ",
                         last_step(), " is copied to ", copies.directory(),
                         "; a larger --commit-every leaves copies more time"));
  }
  return copied;
}

absl::Status CommitStarter::StartAgain() {
  const TrainOptions& options = context_.options;
  if (options.no_commit) return absl::OkStatus();
  CommitCopies* const copies = context_.storage->copies();
  if (copies != nullptr && options.rank == 0) {
    RETURN_IF_ERROR(copies->GoOnFrom(state_.step - 1).status());
  }
  return Start();
}

absl::Status CommitStarter::Start() {
  const double began = MonotonicSeconds();
  RunStorage& storage = *context_.storage;
  SwapManager& manager = *setup_.manager();
  RETURN_IF_ERROR(setup_.memory()->AwaitProgram());
  RETURN_IF_ERROR(storage.CheckStillThere());
  if (const FactoredMoments* const moments = setup_.factored_moments()) {
    state_.factored_moments = moments->values();
  }
  RETURN_IF_ERROR(journal_->Sync());
  {
    const TraceSpan span(recorder_.trace(), SpanKind::kWaitCommit);
    RETURN_IF_ERROR(manager.AwaitNoCommit());
    // Ranks exchange here only if there are copies (--persist), and one rank's may take long.
    const std::unique_ptr<PatientRanks> patient =
        storage.copies() != nullptr ? PatientRanks::Among(context_.ranks) : nullptr;
    RETURN_IF_ERROR(AwaitEarlierCommit(storage, manager, patient.get()));
  }
  const auto span = std::make_shared<std::optional<TraceSpan>>();
  span->emplace(recorder_.trace(), SpanKind::kCommit);
  const RankGroups& ranks = context_.ranks;
  RETURN_IF_ERROR(StartRunCommit(storage, manager, ranks.world, ranks.commits, state_,
                                 [span, last_step = last_step_, step = state_.step] {
                                   span->reset();
                                   *last_step = step;
                                 }));
  if (storage.copies() != nullptr) journal_->SetWarning(storage.copies()->Missed());
  journal_->Commit(state_.step);
  meter_.CountCommit(began);
  schedule_.CommitBegan(began);
  return absl::OkStatus();
}

}  // namespace spillway
