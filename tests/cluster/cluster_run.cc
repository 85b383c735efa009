#include "tests/cluster/cluster_run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/run/committed_run.h"
#include "swap/plan/planner.h"
#include "tests/cluster/cluster_run_internal.h"

namespace spillway {

// --- What the seed draws
// --------------------------------------------------------------------------

void ClusterRun::DrawModel() {
  shape_.tile_parameters = 2048 * random_.Between(1, 2);
  shape_.residual = random_.OneIn(3);
  const int units = static_cast<int>(random_.Between(1, 3));
  for (int u = 0; u < units; ++u) {
    UnitDescription unit;
    unit.name = absl::StrCat("u", u);
    unit.frozen = u > 0 && random_.OneIn(5);
    ParameterDescription parameter;
    parameter.name = absl::StrCat("u", u, ".weight");
    // From less than a rank's smallest portion on.
    parameter.shape = {static_cast<int64_t>(random_.Between(1, 9000))};
    unit.parameters = {parameter};
    model_.units.push_back(unit);
  }
  const absl::Status laid_out = LayOutParameters(model_);
  if (!laid_out.ok()) Fail(laid_out.ToString());
  for (const UnitDescription& unit : model_.units) {
    shape_.units.push_back(unit.flat_parameters);
    shape_.frozen.push_back(unit.frozen);
    shape_.borrows.emplace_back();
  }
  persists_ = crash_ != nullptr ? crash_->persist : random_.OneIn(3);
  keep_ = static_cast<int>(random_.Between(1, 2));
  has_source_ = random_.OneIn(2);
  moves_ = crash_ == nullptr && random_.OneIn(2);
  DrawSwapPaths();
  refusals_ = random_.OneIn(3);
  for (const char* directory : {"/sim/runs", "/sim/swap0", "/sim/swap1"}) {
    disk_.AddDirectory(directory);
  }
}

void ClusterRun::DrawSwapPaths() {
  const uint64_t swap = random_.Below(4);
  swap_paths_.clear();
  if (swap != 1) swap_paths_.emplace_back("/sim/swap0");
  if (swap == 1 || swap == 2) swap_paths_.emplace_back("/sim/swap1");
}

std::unique_ptr<ClusterRun::Life> ClusterRun::DrawLife(bool last) {
  auto life = std::make_unique<Life>();
  life->last = last;
  life->persist = persists_;
  life->ranks = random_.OneIn(life->persist ? 3 : 6) ? 1 : static_cast<int>(random_.Between(2, 4));
  life->group = life->ranks;
  if (random_.OneIn(3)) life->group = life->ranks == 4 && random_.OneIn(2) ? 2 : 1;
  if (crash_ != nullptr) life->ranks = life->group = 3;
  life->overwrite =
      overwriting_ || (crash_ == nullptr && !last && !may_be_found_.empty() && random_.OneIn(12));
  if (moves_) DrawSwapPaths();
  life->swap_paths = swap_paths_;
  life->steps = crash_ != nullptr ? 2 : static_cast<int>(random_.Between(1, 6));
  life->commit_every = crash_ != nullptr ? 1 : static_cast<int>(random_.Between(1, 3));
  life->update = random_.OneIn(2) ? UpdateMode::kImmediate : UpdateMode::kDeferred;

  life->shard = shape_;
  const ShardGrid grid{life->ranks, life->group, 0};
  for (uint64_t& parameters : life->shard.units) {
    if (life->ranks > 1) parameters = grid.ShardParameters(parameters);
  }
  life->schedule = life->shard.Schedule(life->update);
  PlanRequest request;
  request.layout = life->shard.Layout();
  request.schedule = life->schedule;
  request.has_storage = true;
  constexpr TierChoice kChoices[] = {TierChoice::kNvme, TierChoice::kAuto, TierChoice::kHost};
  request.weights = kChoices[random_.Below(3)];
  request.optimizer = random_.OneIn(2) ? request.weights : kChoices[random_.Below(3)];
  request.max_tile_buffers = static_cast<int>(random_.Between(2, 6));
  const auto smallest = SmallestBudgets(request);
  if (!smallest.ok()) {
    Fail(absl::StrCat("no budgets: ", smallest.status().ToString()));
    return nullptr;
  }
  const auto spare = [&](uint64_t most) {
    return random_.OneIn(2) ? 0 : random_.Below(uint64_t{1} << random_.Between(12, most));
  };
  request.host_bytes = smallest->front().host_bytes + spare(18);
  request.device_bytes = smallest->front().device_bytes + spare(18);
  auto plan = PlanSwaps(request);
  if (!plan.ok()) {
    Fail(absl::StrCat("no plan: ", plan.status().ToString()));
    return nullptr;
  }
  life->plan = *std::move(plan);
  life->options.io.block_bytes = 4096u << random_.Below(4);
  life->options.io.depth = static_cast<uint32_t>(random_.Between(1, 8));
  life->options.workers = static_cast<int>(random_.Between(1, 2));
  life->options.executor = &world_;
  life->network = std::make_unique<SimNetwork>(
      &world_, [this](int rank) { return Dead(rank); },
      [this](std::string what) { Fail(std::move(what)); });
  life->ends.resize(life->ranks);
  return life;
}

// Arms what may go wrong in the life to come.
void ClusterRun::ArmLife(const Life& life) {
  if (crash_ != nullptr) {
    if (lives_ != 2) return;
    return disk_.ArmCrash(crash_->kind, crash_->call, SimDisk::CrashAt::kCalls,
                          ProcessOf(crash_->rank));
  }
  if (refusals_ && random_.OneIn(3)) {
    // No room for a small file: with luck it is a commit's manifest.
    disk_.faults().Arm(random_.OneIn(2) ? SimFault::kCreateError : SimFault::kAppendNoSpace,
                       random_.Below(48));
  } else if (refusals_ && random_.OneIn(2)) {
    const auto fault =
        static_cast<SimFault>(random_.Between(static_cast<uint64_t>(SimFault::kReadError),
                                              static_cast<uint64_t>(SimFault::kReadSmallError)));
    disk_.faults().Arm(fault, random_.Below(uint64_t{1} << random_.Between(1, 7)));
  }
  if (random_.OneIn(5)) return;
  const auto kind = random_.OneIn(2) ? SimDisk::CrashKind::kKill : SimDisk::CrashKind::kPowerLoss;
  const int victim = ProcessOf(static_cast<int>(random_.Below(life.ranks)));
  if (life.persist && !random_.OneIn(3)) {  // while a copy is made, or older ones go
    // One takes some dozen of these.
    return disk_.ArmCrash(kind, random_.Below(random_.OneIn(2) ? 40 : 12),
                          SimDisk::CrashAt::kRenames, victim, kClusterCopies);
  }
  // A life has some hundred calls that are no transfers, and some dozen renames and syncs.
  constexpr std::pair<SimDisk::CrashAt, uint64_t> kMoments[] = {{SimDisk::CrashAt::kAny, 2000},
                                                                {SimDisk::CrashAt::kCalls, 400},
                                                                {SimDisk::CrashAt::kRenames, 60}};
  const auto& [at, most] = kMoments[random_.Below(3)];
  disk_.ArmCrash(kind, random_.Below(random_.OneIn(2) ? most : most / 8), at, victim);
}

// --- From life to life
// ----------------------------------------------------------------------------

void ClusterRun::LiveOnce(bool last) {
  disk_.faults().DisarmAll();
  refusals_before_ = disk_.faults().refusals();
  disk_.Boot();
  const std::unique_ptr<Life> life = DrawLife(last);
  if (life == nullptr) return;
  ++lives_;
  if (!last) ArmLife(*life);
  world_.Trace("life", static_cast<uint64_t>(life->ranks), static_cast<uint64_t>(life->group),
               life->persist);
  for (int number = 0; number < life->ranks; ++number) {
    world_.fibers().Begin(ProcessOf(number), "a rank", [this, &life = *life, number] {
      Rank rank;
      rank.number = number;
      rank.grid = {life.ranks, life.group, number};
      if (life.ranks > 1) {
        rank.world = life.network->Join(0, number, life.ranks);
        rank.commits = life.network->Join(1, number, life.ranks);
      }
      life.ends[number] = LiveRank(life, rank);
      world_.Trace("rank ends", static_cast<uint64_t>(life.ends[number].raw_code()));
      if (!life.ends[number].ok() && rank.commits != nullptr) rank.commits->Abort();
      rank.manager.reset();
      rank.store.reset();
      rank.storage.reset();
      life.network->Leave(number, Dead(number));
    });
  }
  world_.RunFibers();
  disk_.faults().DisarmAll();
  tally_.refusals += disk_.faults().refusals() - refusals_before_;
  struck_ |= disk_.any_crashed();
  if (disk_.any_crashed()) {
    ++(disk_.crash_kind() == SimDisk::CrashKind::kKill ? tally_.kills : tally_.power_losses);
  }
  JudgeEnds(*life);
  JudgeFiles(*life);
}

// The scratch disks of a job are gone, as is OUTPUT: what is left is the copies.
void ClusterRun::LoseScratch() {
  world_.Trace("scratch lost");
  if (random_.OneIn(2)) disk_.LosePower();
  for (const char* directory : {"/sim/runs", "/sim/swap0", "/sim/swap1"}) {
    disk_.Wipe(directory);
    disk_.AddDirectory(directory);
  }
  may_be_found_.clear();
  acknowledged_ = -1;
  overwriting_ = part_lost_ = false;
}

// One rank's swap is: all of them go on from the copies.
void ClusterRun::LosePart() {
  const auto state = OpenCommittedRun(kClusterOutput, files_);
  if (!state.ok()) return;
  const int rank = static_cast<int>(random_.Below(state->state.part.ranks));
  const auto part = OpenCommittedRun(RankOutput(kClusterOutput, rank), files_);
  if (!part.ok()) return;
  world_.Trace("a part lost", static_cast<uint64_t>(rank));
  for (const std::string& directory : part->store->directories()) disk_.Wipe(directory);
  may_be_found_.clear();
  acknowledged_ = -1;
  part_lost_ = true;
  ++tally_.parts_lost;
}

ClusterResult ClusterRun::Go() {
  DrawModel();
  const uint64_t lives = crash_ != nullptr ? 2 : random_.Between(1, 5);
  for (uint64_t i = 0; i < lives && failure_.empty(); ++i) {
    LiveOnce(/*last=*/false);
    if (!failure_.empty()) break;
    disk_.faults().DisarmAll();
    disk_.Boot();
    if (crash_ == nullptr && random_.OneIn(persists_ ? 2 : 4)) disk_.LosePower();
    if (random_.OneIn(2)) JudgeCommit();
    if (random_.OneIn(2) || persists_) JudgeCopies();
    if (copied_ < 0 || overwriting_) continue;
    if (random_.OneIn(6)) {
      LoseScratch();
    } else if (random_.OneIn(6)) {
      LosePart();
    }
  }
  if (failure_.empty()) {
    LiveOnce(/*last=*/true);
    disk_.Boot();
    JudgeCommit();
    JudgeCopies();
    if (failure_.empty() && has_source_) JudgeExport();
  }
  ClusterResult result;
  result.trace_hash = world_.trace_hash();
  result.tally = tally_;
  if (!failure_.empty()) {
    result.failure = absl::StrCat(failure_, "\n  faults: ", disk_.faults().Summary());
  }
  return result;
}

void ClusterTally::Add(const ClusterTally& other) {
  kills += other.kills;
  power_losses += other.power_losses;
  refusals += other.refusals;
  resumes += other.resumes;
  resumes_in_doubt += other.resumes_in_doubt;
  resharded += other.resharded;
  moved += other.moved;
  commits += other.commits;
  single_commits += other.single_commits;
  lost += other.lost;
  copies += other.copies;
  single_copies += other.single_copies;
  resumes_from_copies += other.resumes_from_copies;
  resumes_from_single_copies += other.resumes_from_single_copies;
  exports += other.exports;
  overwritten += other.overwritten;
  parts_waiting += other.parts_waiting;
  parts_lost += other.parts_lost;
  finished += other.finished;
}

ClusterResult RunClusterSeed(uint64_t seed, bool print_trace) {
  return ClusterRun(seed, print_trace).Go();
}

ClusterResult RunClusterCrash(uint64_t seed, const ClusterCrash& crash, bool* struck) {
  ClusterRun run(seed, /*print_trace=*/false, &crash);
  ClusterResult result = run.Go();
  *struck = run.struck();
  return result;
}

}  // namespace spillway
