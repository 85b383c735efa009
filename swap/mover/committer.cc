#include "swap/mover/committer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/log.h"

namespace spillway {

Committer::Committer(const MoverContext& context, Passes* passes, Executor* executor)
    : context_(context), passes_(passes), thread_(1, executor) {}

void Committer::Start(const std::string& manifest_path, CommitRecord record,
                      std::function<void()> at_end, PublishCommitHere publish) {
  SPILLWAY_CHECK(store_ != nullptr && store_->two_slots() && run_ == nullptr);
  lost_ = absl::OkStatus();
  run_ = std::make_unique<Run>();
  run_->manifest_path = manifest_path;
  run_->record = std::move(record);
  run_->at_end = std::move(at_end);
  run_->publish = std::move(publish);
  // Updates of the steps whose gradients are complete, and no later ones.
  run_->version = passes_->newest_version();
  passes_->HoldUpdatesAfter(run_->version);
  context_.record->Event("commit");
}

void Committer::Advance() {
  if (run_ == nullptr || run_->phase == Phase::kSyncing) return;
  if (passes_->AnyAwaitedBy(run_->version)) return;
  if (run_->phase == Phase::kSaving) return Sync();
  run_->phase = Phase::kSaving;
  StartSaves();
  context_.thread->NoteProgress();
}

void Committer::StartSaves() {
  SPILLWAY_CHECK(run_->phase == Phase::kSaving);
  for (int unit = 0; unit < context_.layout.num_units(); ++unit) {
    bool any = false;
    for (int plane = 0; plane < context_.layout.NumPlanes(unit); ++plane) {
      any |= !context_.plan.placements[unit].InStore(plane);
    }
    // Once it is there it stays as it is.
    for (int tile = 0; any && context_.layout.frozen(unit) && tile < context_.layout.NumTiles(unit);
         ++tile) {
      any = store_->IsStale(unit, tile, 0);
    }
    if (any) passes_->Save(unit, run_->record.step);
  }
}

void Committer::Sync() {
  SPILLWAY_CHECK(run_->phase == Phase::kSaving);
  absl::StatusOr<StoreCommit> commit =
      store_->BeginCommit(run_->manifest_path, std::move(run_->record));
  if (!commit.ok()) return context_.thread->Fail(commit.status());
  run_->phase = Phase::kSyncing;
  thread_.Run([this, commit = *std::move(commit), publish = run_->publish] {
    bool only_lost = false;
    absl::Status status = store_->MakeDurable(commit, &only_lost);
    if (publish) status = publish(std::move(status), &only_lost);
    context_.thread->Post(
        [this, status = std::move(status), only_lost] { Synced(status, only_lost); });
  });
}

void Committer::Synced(const absl::Status& status, bool only_lost) {
  SPILLWAY_CHECK(run_ != nullptr && run_->phase == Phase::kSyncing);
  const std::unique_ptr<Run> run = std::move(run_);
  passes_->LetGo();
  if (!status.ok() && !only_lost) return context_.thread->Fail(status);
  lost_ = status;
  if (status.ok()) {
    store_->EndCommit();
    context_.record->Event("committed");
    if (run->at_end) run->at_end();
  } else {
    store_->GiveUpCommit();
    context_.record->Event("commit lost");
    LogWarning(absl::StrCat(status.message(), "; the run goes on without this commit"));
  }
  if (waiter_) std::exchange(waiter_, nullptr)(status);
}

void Committer::Await(Done done) {
  SPILLWAY_CHECK(!waiter_);
  if (run_ == nullptr) return done(lost_);
  waiter_ = std::move(done);
}

void Committer::FailWaiter(const absl::Status& status) {
  if (waiter_) std::exchange(waiter_, nullptr)(status);
}

}  // namespace spillway
