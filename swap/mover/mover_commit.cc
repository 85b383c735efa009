// The mover's commits. One is under way at most; see the top of swap/mover/mover.h.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "swap/mover/mover.h"
#include "swap/mover/mover_internal.h"

namespace spillway {

void SwapManager::Mover::StartCommit(const std::string& manifest_path, const CommitRecord& record,
                                     std::function<void()> at_end,
                                     std::function<absl::Status()> publish) {
  if (failed_) return;
  SPILLWAY_CHECK(store_ != nullptr && store_->two_slots() && commit_ == nullptr);
  commit_ = std::make_unique<CommitRun>();
  commit_->manifest_path = manifest_path;
  commit_->record = record;
  commit_->at_end = std::move(at_end);
  commit_->publish = std::move(publish);
  // Updates of the steps whose gradients are complete, and no later ones.
  for (const int64_t version : settled_) {
    commit_->version = std::max(commit_->version, version);
  }
  for (const auto& pass : passes_) {
    if (pass->kind == PassKind::kUpdate) {
      commit_->version = std::max(commit_->version, pass->version);
    }
  }
  Event("commit");
}

void SwapManager::Mover::WhenCommitted(Done done) {
  if (failed_) return done(error());
  if (commit_ == nullptr) return done(absl::OkStatus());
  commit_waiter_ = std::move(done);
}

// The slot that a later update would write to is the last commit's until this one is
// durable, and what lives in memory is being saved.
bool SwapManager::Mover::HeldByCommit(const Pass& pass) {
  if (commit_ == nullptr || pass.kind != PassKind::kUpdate) return false;
  if (pass.version <= commit_->version) return false;
  held_by_commit_ = true;
  return true;
}

void SwapManager::Mover::AdvanceCommit() {
  if (commit_ == nullptr || commit_->phase == CommitPhase::kSyncing) return;
  for (const auto& pass : passes_) {
    const bool awaited = pass->kind == PassKind::kUpdate ? pass->version <= commit_->version
                                                         : pass->kind != PassKind::kRound;
    if (awaited) return;
  }
  if (commit_->phase == CommitPhase::kUpdating) {
    commit_->phase = CommitPhase::kSaving;
    StartSaves();
    pump_again_ = true;
    return;
  }
  absl::StatusOr<StoreCommit> commit = store_->BeginCommit(commit_->manifest_path, commit_->record);
  if (!commit.ok()) return Fail(commit.status());
  commit_->phase = CommitPhase::kSyncing;
  commit_thread_.Run([this, commit = *std::move(commit), publish = commit_->publish] {
    absl::Status status = store_->MakeDurable(commit);
    if (status.ok() && publish) status = publish();
    Post([this, status = std::move(status)] { CommitDone(status); });
  });
}

void SwapManager::Mover::CommitDone(const absl::Status& status) {
  const std::unique_ptr<CommitRun> commit = std::move(commit_);
  if (!status.ok()) return Fail(status);
  store_->EndCommit();
  Event("committed");
  if (commit->at_end) commit->at_end();
  if (commit_waiter_) std::exchange(commit_waiter_, nullptr)(absl::OkStatus());
}

void SwapManager::Mover::StartSaves() {
  for (int unit = 0; unit < layout_.num_units(); ++unit) {
    bool any = false;
    for (int plane = 0; plane < layout_.num_planes(); ++plane) {
      any |= !plan_.placements[unit].InStore(plane);
    }
    if (!any) continue;
    auto pass = std::make_unique<Pass>();
    pass->kind = PassKind::kSave;
    pass->unit = unit;
    AddPass(std::move(pass));
  }
}

// On a worker thread.
absl::Status SwapManager::Mover::ChecksumSaved(TileTask& task) const {
  const int unit = task.pass->unit;
  for (int plane = 0; plane < layout_.num_planes(); ++plane) {
    if (plan_.placements[unit].InStore(plane)) continue;
    if (!store_->IsStale(unit, task.tile, plane)) continue;
    task.saved_planes.push_back(plane);
    task.checksums.push_back(
        Checksum(store_->PlaneIdentity(unit, task.tile, plane, task.generation), task.planes[plane],
                 layout_.PlaneBytes(unit, task.tile, plane)));
  }
  return absl::OkStatus();
}

void SwapManager::Mover::WriteSaved(TileTask* task) {
  const int unit = task->pass->unit;
  const size_t count = task->saved_planes.size();
  if (count == 0) return EndTask(task);
  task->transfers_left = static_cast<int>(count);
  task->save_requests.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const int plane = task->saved_planes[i];
    SubmitTransfer(task, task->save_requests[i], IoOp::kWrite,
                   store_->WritableTile(unit, task->tile, plane), task->planes[plane],
                   layout_.PlaneBytes(unit, task->tile, plane));
  }
}

}  // namespace spillway
