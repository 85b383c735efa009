// What a rank does in a life, as engine/torch/train.cc and engine/train/ have it: it opens its part
// of the run's storage with the others, brings its state, trains, commits, and leaves.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/ranks/shard_plan.h"
#include "engine/run/run_commit.h"
#include "engine/weights/model_files.h"
#include "io/base/status.h"
#include "tests/cluster/cluster_run_internal.h"

namespace spillway {

TrainOptions ClusterRun::OptionsOf(const Life& life, int rank) const {
  TrainOptions options;
  options.output = kClusterOutput;
  options.swap_paths = life.swap_paths;
  options.rank = rank;
  options.ranks = options.ranks_here = life.ranks;
  options.shard_group_size = life.group;
  options.tile_parameters = shape_.tile_parameters;
  options.resume = !life.overwrite;
  options.overwrite = life.overwrite;
  if (life.persist) {
    options.persist = kClusterCopies;
    options.keep = keep_;
  }
  return options;
}

// The first rank that has found where the run goes on from says it for the oracle.
void ClusterRun::BeginFrom(Life& life, RunStorage& storage) {
  const std::optional<RunState>& committed = storage.committed();
  const bool from_copy = absl::StartsWith(storage.committed_in(), kClusterCopies);
  const int64_t step = committed ? committed->step : -1;
  if (!life.states.empty()) {
    const int64_t other = life.states[0]->step;
    if (other != std::max<int64_t>(step, 0)) {
      Fail(absl::StrCat("one rank goes on from step ", other, ", another from ", step));
    }
    return;
  }
  if (committed) {
    ClusterStates allowed = may_be_found_;
    int64_t least = acknowledged_;
    if (life.persist && acknowledged_ < 0) {  // what is lost is gone on from as the copies have it
      allowed.insert(allowed.begin(), committed_.begin(), committed_.end());
      least = copied_;
    }
    // Of a step that was taken twice it is the later one's.
    for (auto state = allowed.rbegin(); state != allowed.rend(); ++state) {
      if ((*state)->step == step) {
        life.states = {*state};
        break;
      }
    }
    if (life.states.empty() || step < least) {
      Fail(absl::StrCat("the run goes on from step ", step, ", and that of step ", least,
                        " was committed"));
    }
    if (from_copy) copied_ = std::max(copied_, step);
    ++tally_.resumes;
    tally_.resumes_from_copies += from_copy && committed->part.ranks > 1;
    tally_.resumes_from_single_copies += from_copy && committed->part.ranks == 1;
    tally_.resumes_in_doubt += step > acknowledged_ && acknowledged_ >= 0;
  } else if (acknowledged_ >= 0 && !life.overwrite) {
    Fail(absl::StrCat("the commit of step ", acknowledged_, " is gone"));
  }
  if (life.states.empty()) {
    life.states = {std::make_shared<ClusterState>(ClusterState{0, 0, SimOracle(shape_)})};
  }
  overwriting_ = life.overwrite;
  if (overwriting_) return;
  may_be_found_.clear();
  if (committed) may_be_found_ = life.states;
  acknowledged_ = step;
}

absl::Status ClusterRun::SetUp(Life& life, Rank& rank) {
  const TrainOptions options = OptionsOf(life, rank.number);
  ASSIGN_OR_RETURN(rank.storage,
                   RunStorage::OpenTogether(options, rank.world.get(), files_, &world_));
  const std::optional<RunState>& committed = rank.storage->committed();
  if (Dead(rank.number)) return absl::UnavailableError("dead");
  BeginFrom(life, *rank.storage);
  if (rank.number == 0 && committed) {
    const bool other_ranks =
        committed->part.ranks != life.ranks || committed->part.group != life.group;
    tally_.resharded += other_ranks;
    tally_.moved += !other_ranks && committed->parents != SwapParents(options, files_);
  }
  if (committed) rank.state = *committed;
  rank.state.model = model_;
  rank.state.finished = false;
  const absl::Status opened = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(rank.store,
                     rank.storage->OpenStore(life.plan.layout, life.plan.spill_room, rank.state));
    return absl::OkStatus();
  }();
  RETURN_IF_ERROR(AgreeAll(rank.world.get(), opened));
  if (rank.number == 0) {
    tally_.overwritten += life.overwrite;
    const nlohmann::json config = {{"architectures", {"Simulated"}}};
    if (has_source_) {
      RETURN_IF_ERROR(SaveModelFiles({.config = config, .directory = "/sim/model"},
                                     SourceDirectory(kClusterOutput), files_));
    }
  }
  RETURN_IF_ERROR(rank.storage->CommitMove(rank.store.get(), rank.world.get()));
  part_lost_ &= Dead(rank.number);
  if (overwriting_ && rank.number == 0) {  // all of them have come here
    overwriting_ = false;
    may_be_found_.clear();
    acknowledged_ = -1;
    if (life.persist) copied_ = -1, copies_ = 0;
  }
  ASSIGN_OR_RETURN(rank.host, Arena::Create(life.plan.host_arena_bytes, &rank.budget));
  ASSIGN_OR_RETURN(rank.device, Arena::Create(life.plan.device_arena_bytes, &rank.budget));
  rank.compute = std::make_unique<SimCompute>(life.shard);
  ASSIGN_OR_RETURN(rank.manager,
                   SwapManager::Create(life.plan, rank.store.get(), rank.host.get(),
                                       rank.device.get(), rank.compute.get(), life.options));
  RETURN_IF_ERROR(AgreeAll(rank.world.get(), BringFirstState(life, rank)));
  return rank.storage->FinishCopies(rank.world.get());
}

absl::Status ClusterRun::BringFirstState(Life& life, Rank& rank) {
  if (rank.storage->committed()) return rank.manager->LoadResident();
  return rank.manager->Initialize([&](const TileView& tile) {
    TileView whole = tile;
    whole.first_parameter += rank.grid.ShardBegin(shape_.units[tile.unit]);
    return SimFill(whole);
  });
}

absl::Status ClusterRun::LiveRank(Life& life, Rank& rank) {
  RETURN_IF_ERROR(SetUp(life, rank));
  if (random_.OneIn(3)) RETURN_IF_ERROR(Compare(life, rank));
  for (int i = 1; i <= life.steps; ++i) {
    RETURN_IF_ERROR(rank.storage->CheckStillThere());
    RETURN_IF_ERROR(TakeStep(life, rank));
    if (i % life.commit_every == 0 || i == life.steps) RETURN_IF_ERROR(Commit(life, rank));
  }
  return Finish(life, rank);
}

const ClusterState& ClusterRun::After(Life& life, size_t at, uint64_t salt, bool skip) {
  if (at + 1 == life.states.size()) {
    ClusterState next = *life.states[at];
    next.oracle.Step(life.schedule, next.applied + 1, skip, salt);
    ++next.step;
    if (!skip) ++next.applied;
    life.states.push_back(std::make_shared<ClusterState>(std::move(next)));
  }
  return *life.states[at + 1];
}

absl::Status ClusterRun::TakeStep(Life& life, Rank& rank) {
  const ClusterState& now = *life.states[rank.at];
  const bool deferred = life.update == UpdateMode::kDeferred;
  // What every rank must have heard from all others, of this very step.
  const int64_t own = 5 * rank.number + now.step;
  uint64_t salt = static_cast<uint64_t>(own);
  if (rank.world != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> all, AllGatherCount(*rank.world, own));
    salt = 0;
    for (const int64_t one : all) salt += static_cast<uint64_t>(one);
  }
  rank.manager->Enqueue(Program::kTrain);
  UpdateScalars scalars;
  scalars.step = now.applied + 1;
  if (!deferred) rank.manager->AnnounceUpdate(scalars);
  RETURN_IF_ERROR(RunOps(life, rank, salt));
  if (deferred) {
    RETURN_IF_ERROR(rank.manager->AwaitGradients().status());
    scalars.skip = now.step % 5 == 3;
    rank.manager->AnnounceUpdate(scalars);
  }
  const ClusterState& after = After(life, rank.at, salt, scalars.skip);
  rank.state.step = after.step;
  rank.state.applied_steps = after.applied;
  ++rank.at;
  return absl::OkStatus();
}

void ClusterRun::CheckWeights(const Life& life, const Rank& rank, const OpBuffers& buffers) {
  const SimOracle& oracle = life.states[rank.at]->oracle;
  for (size_t i = 0; i < buffers.op->weights.size(); ++i) {
    const int unit = buffers.op->weights[i];
    const std::vector<uint16_t>& expected = oracle.weights[unit];
    const uint64_t begin =
        std::min<uint64_t>(rank.grid.ShardBegin(expected.size()), expected.size());
    const uint64_t end = std::min<uint64_t>(begin + life.shard.units[unit], expected.size());
    if (!std::equal(expected.begin() + static_cast<ptrdiff_t>(begin),
                    expected.begin() + static_cast<ptrdiff_t>(end),
                    reinterpret_cast<const uint16_t*>(buffers.weights[i]))) {
      Fail(absl::StrCat("rank ", rank.number, " computes with wrong weights of unit ", unit,
                        " after step ", life.states[rank.at]->step));
    }
  }
}

absl::Status ClusterRun::RunOps(Life& life, Rank& rank, uint64_t salt) {
  for (size_t number = 0; number < life.schedule.ops.size(); ++number) {
    ASSIGN_OR_RETURN(const OpBuffers buffers, rank.manager->BeginOp());
    if (!Dead(rank.number)) CheckWeights(life, rank, buffers);
    for (size_t i = 0; i < buffers.gradients.size(); ++i) {
      const int unit = buffers.op->gradients[i];
      // The unit's weights are those that the operation has.
      const auto& units = buffers.op->weights;
      const auto place = std::find(units.begin(), units.end(), unit) - units.begin();
      SimAddGradient(static_cast<int>(number),
                     reinterpret_cast<const uint16_t*>(buffers.weights[place]),
                     life.shard.units[unit], buffers.fresh[i], buffers.Rounded(i),
                     buffers.gradients[i], salt + rank.grid.ShardBegin(shape_.units[unit]));
    }
    world_.PassTime(random_.Below(20));
    rank.manager->EndOp();
  }
  return absl::OkStatus();
}

absl::Status ClusterRun::Compare(const Life& life, Rank& rank) {
  const SimOracle& oracle = life.states[rank.at]->oracle;
  return rank.manager->ReadState(0, shape_.num_planes(), [&](const TileView& tile) {
    TileView whole = tile;
    whole.first_parameter += rank.grid.ShardBegin(shape_.units[tile.unit]);
    if (!Dead(rank.number) && !SimSameTile(whole, oracle)) {
      Fail(absl::StrCat("unit ", tile.unit, " tile ", tile.tile, " of rank ", rank.number,
                        " after step ", life.states[rank.at]->step, " is not the oracle's"));
    }
    return absl::OkStatus();
  });
}

absl::Status ClusterRun::Commit(Life& life, Rank& rank) {
  const bool done = rank.manager->AwaitCommit().ok();
  RETURN_IF_ERROR(AwaitEarlierCommit(*rank.storage, *rank.manager, rank.world.get()));
  if (Dead(rank.number)) return absl::UnavailableError("dead");
  tally_.lost += !done && life.ranks > 1;
  const auto& state = life.states[rank.at];
  if (may_be_found_.empty() || may_be_found_.back() != state) may_be_found_.push_back(state);
  if (committed_.empty() || committed_.back() != state) committed_.push_back(state);
  return StartRunCommit(*rank.storage, *rank.manager, rank.world.get(), rank.commits.get(),
                        rank.state, [this, &rank, step = state->step, several = life.ranks > 1] {
                          Acknowledge(rank, step, several);
                        });
}

void ClusterRun::Acknowledge(const Rank& rank, int64_t step, bool of_several) {
  if (Dead(rank.number)) return;
  world_.Trace("acknowledged", static_cast<uint64_t>(step));
  acknowledged_ = std::max(acknowledged_, step);
  ++(of_several ? tally_.commits : tally_.single_commits);
  // Earlier ones can't be found any more.
  std::erase_if(may_be_found_, [&](const auto& state) { return state->step < acknowledged_; });
}

absl::Status ClusterRun::Finish(Life& life, Rank& rank) {
  RETURN_IF_ERROR(rank.manager->Flush());
  RETURN_IF_ERROR(Compare(life, rank));
  RETURN_IF_ERROR(rank.manager->AwaitCommit());
  if (rank.storage->copies() != nullptr) {
    RETURN_IF_ERROR(AwaitCopies(*rank.storage, rank.world.get()));
    const size_t whole = WholeCopies().size();
    if (!Dead(rank.number)) {
      copied_ = rank.state.step;
      copies_ = static_cast<int>(whole);
      ++(life.ranks > 1 ? tally_.copies : tally_.single_copies);
    }
  }
  return absl::OkStatus();
}

}  // namespace spillway
