#include "engine/train/write_account.h"

#include <numeric>
#include <optional>
#include <vector>

#include "engine/ranks/shard_plan.h"
#include "io/base/status.h"

namespace spillway {

absl::Status WriteAccount::ReadBefore() {
  const TrainOptions& options = context_.options;
  const RunStorage& storage = *context_.storage;
  if (!options.resume) return absl::OkStatus();
  ASSIGN_OR_RETURN(before_bytes_, WrittenBytes::Read(storage.output()));
  if (options.rank > 0 || !storage.committed()) return absl::OkStatus();
  for (int rank = options.ranks; rank < storage.committed()->part.ranks; ++rank) {
    ASSIGN_OR_RETURN(const uint64_t bytes, WrittenBytes::Read(RankOutput(storage.output(), rank)));
    before_bytes_ += bytes;
  }
  return absl::OkStatus();
}

absl::Status WriteAccount::Check(const SwapPlan& plan, const InPlaceUnits& in_place) {
  const TrainOptions& options = context_.options;
  const std::optional<RunState>& committed = context_.storage->committed();
  plan_ = PlanWrites(plan, !committed, !options.no_commit, in_place);
  plan_.commits_between =
      options.commit_every > 0 && options.commit_every < options.steps && !options.no_commit;
  // A run that only lacks its last evaluation takes no step.
  if (committed && committed->step >= options.steps) plan_.step_bytes = 0;
  plan_of_all_ = plan_;
  uint64_t before_bytes = before_bytes_;
  for (uint64_t* bytes : {&before_bytes, &plan_of_all_.initial_bytes, &plan_of_all_.step_bytes,
                          &plan_of_all_.end_bytes}) {
    ASSIGN_OR_RETURN(*bytes, OfAll(*bytes));
  }
  return AgreeAll(context_.ranks.world,
                  CheckWriteLimit(options.max_bytes_written, before_bytes, plan_of_all_));
}

absl::Status WriteAccount::Open(const SwapManager* manager) {
  manager_ = manager;
  ASSIGN_OR_RETURN(written_, WrittenBytes::Open(context_.storage->output(), before_bytes_));
  return Count(plan_.initial_bytes);
}

absl::StatusOr<uint64_t> WriteAccount::OfAll(uint64_t own) const {
  Collectives* const world = context_.ranks.world;
  if (world == nullptr) return own;
  ASSIGN_OR_RETURN(const std::vector<int64_t> all, AllGatherCount(*world, own));
  return std::accumulate(all.begin(), all.end(), uint64_t{0});
}

absl::StatusOr<bool> WriteAccount::IsAtLimit() {
  const uint64_t limit_bytes = context_.options.max_bytes_written;
  if (limit_bytes == 0) return false;
  ASSIGN_OR_RETURN(const uint64_t written_bytes, OfAll(total_bytes()));
  WritePlan with_commit = plan_of_all_;
  with_commit.commits_between = true;
  commit_fits_ = !StepWouldPass(limit_bytes, written_bytes, with_commit);
  return StepWouldPass(limit_bytes, written_bytes, plan_of_all_);
}

absl::Status WriteAccount::Count(uint64_t expected_bytes) {
  RETURN_IF_ERROR(written_->Set(manager_->stats().io.written_bytes, expected_bytes));
  if (journal_ != nullptr) journal_->SetWritten(written_->total());
  return absl::OkStatus();
}

}  // namespace spillway
