#include "tests/sim/sim_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "io/file.h"
#include "io/status.h"
#include "swap/store_reader.h"
#include "swap/swap_manager.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_file_system.h"
#include "tests/sim/sim_model.h"

namespace spillway {
namespace {

// A run with lies in it ends when so many lives have ended in wrong bytes.
constexpr int kMostLivesWithLies = 3;

// What a life says when it stops by itself in the middle, as a program told to does.
absl::Status Stopped() { return absl::CancelledError("stopped"); }

struct Commit {
  uint64_t step;
  int64_t applied;
  SimOracle state;
};

class SimRun {
 public:
  SimRun(uint64_t seed, bool print_trace)
      : world_(seed, print_trace), random_(world_.random()), disk_(world_), files_(disk_) {}

  SimResult Go();

 private:
  // One life of the program, from its start to its end, good or bad.
  struct Life {
    UpdateMode update;
    StepSchedule schedule;
    SwapPlan plan;
    SwapManagerOptions options;
    MemoryBudget budget{"sim", uint64_t{1} << 32};
    std::unique_ptr<Arena> host, device;
    SimCompute compute;
    std::unique_ptr<SwapStore> store;
    std::unique_ptr<SwapManager> manager;
    int steps = 0;
    bool last = false;  // nothing goes wrong any more, and it runs to its end
    bool enqueued = false;
  };

  void DrawShape();
  void DrawFaults();
  void ArmLife();
  std::unique_ptr<Life> DrawLife(bool last);
  void LiveOnce(bool last);
  absl::Status Live(Life& life);
  absl::Status OpenStore(Life& life);
  absl::Status CreateStore(Life& life);
  absl::Status CheckIdentities(const SwapStore& store);
  absl::Status Train(Life& life);
  absl::Status TrainStep(Life& life, bool more);
  absl::Status RestAWhile(Life& life);
  absl::Status MaybeCommit(Life& life);
  absl::Status RunOps(Life& life, int count, bool train);
  absl::Status Compare(Life& life);
  void LetItGoOn(Life& life);
  void JudgeEnd(const absl::Status& status);
  void JudgeFiles();
  void JudgeCommit();

  // Something that must hold does not.
  void Fail(std::string what) {
    if (failure_.empty()) failure_ = std::move(what);
  }

  SimWorld world_;
  SimRandom& random_;
  SimDisk disk_;
  SimFileSystem files_;
  SimTally tally_;
  std::string failure_;

  SimShape shape_;
  std::vector<std::string> directories_;
  std::string manifest_path_;
  bool refusals_ = false, lies_ = false;  // what the seed has in store

  // The oracle, and what of it is committed.
  std::optional<SimOracle> oracle_;
  uint64_t step_ = 0;
  int64_t applied_ = 0;
  std::optional<Commit> acknowledged_, under_way_;
  // Of the faults, those before this life.
  uint64_t refusals_before_ = 0;
  int lives_with_lies_ = 0;
};

// --- What the seed draws --------------------------------------------------------

void SimRun::DrawShape() {
  const int units = static_cast<int>(random_.Between(1, 4));
  shape_.tile_parameters = 2048 * random_.Between(1, 2);
  for (int u = 0; u < units; ++u) {
    shape_.units.push_back(2048 * random_.Between(u == 0 ? 1 : 0, 3));
    shape_.borrows.emplace_back();
    if (u > 0 && random_.OneIn(3)) {
      shape_.borrows[u].push_back(static_cast<int>(random_.Below(u)));
    }
  }
  for (int u = 0; u < units; ++u) {
    world_.Trace("unit", u, shape_.units[u], shape_.borrows[u].empty() ? u : shape_.borrows[u][0]);
  }
  const int paths = static_cast<int>(random_.Between(1, 3));
  for (int i = 0; i < paths; ++i) directories_.push_back(absl::StrCat("/sim/swap", i));
  manifest_path_ = random_.OneIn(2) ? "/sim/run/manifest" : "/sim/swap0/manifest";
}

void SimRun::DrawFaults() {
  const uint64_t dice = random_.Below(8);
  refusals_ = dice == 4 || dice == 5 || dice == 7;
  lies_ = dice >= 6;
}

// Arms what may go wrong in the life to come.
void SimRun::ArmLife() {
  SimFaults& faults = disk_.faults();
  const auto arm = [&](SimFault first, SimFault last) {
    const auto fault = static_cast<SimFault>(
        random_.Between(static_cast<uint64_t>(first), static_cast<uint64_t>(last)));
    const bool rare = fault >= SimFault::kSyncError && fault <= SimFault::kReadSmallError;
    const bool once = fault == SimFault::kReadSmallError || fault == SimFault::kSmallFileFlipped;
    faults.Arm(fault, random_.Below(once ? 1 : rare ? 6 : uint64_t{1} << random_.Between(2, 8)));
  };
  if (refusals_ && !random_.OneIn(3)) arm(SimFault::kReadError, SimFault::kReadSmallError);
  if (lies_ && !random_.OneIn(3)) arm(SimFault::kFlippedOnMedium, SimFault::kSmallFileFlipped);
  if (random_.OneIn(4)) return;
  const auto kind = random_.OneIn(2) ? SimDisk::CrashKind::kKill : SimDisk::CrashKind::kPowerLoss;
  if (random_.OneIn(2)) {
    disk_.ArmCrash(kind, random_.Below(60), /*without_transfers=*/true);
  } else {
    disk_.ArmCrash(kind, random_.Below(uint64_t{1} << random_.Between(2, 10)), false);
  }
}

std::unique_ptr<SimRun::Life> SimRun::DrawLife(bool last) {
  auto life = std::make_unique<Life>();
  life->last = last;
  life->steps = static_cast<int>(random_.Between(1, 10));
  life->update = random_.OneIn(2) ? UpdateMode::kImmediate : UpdateMode::kDeferred;
  life->schedule = BuildTrainSchedule({shape_.borrows}, life->update);
  PlanRequest request;
  request.layout = shape_.Layout();
  request.schedule = life->schedule;
  request.has_storage = true;
  constexpr TierChoice kChoices[] = {TierChoice::kNvme, TierChoice::kNvme, TierChoice::kAuto,
                                     TierChoice::kHost};
  request.weights = kChoices[random_.Below(4)];
  request.optimizer = random_.OneIn(2) ? request.weights : kChoices[random_.Below(4)];
  request.max_tile_buffers = static_cast<int>(random_.Between(2, 8));
  request.max_lookahead = static_cast<int>(random_.Between(0, 4));
  const auto smallest = SmallestBudgets(request);
  if (!smallest.ok()) {
    Fail(absl::StrCat("no budgets: ", smallest.status().ToString()));
    return nullptr;
  }
  // From just enough to room for everything.
  const uint64_t spare =
      random_.OneIn(3) ? 0 : random_.Below(uint64_t{1} << random_.Between(12, 18));
  request.host_bytes = smallest->front().host_bytes + spare;
  request.device_bytes = smallest->front().device_bytes + (random_.OneIn(3) ? spare : 0);
  auto plan = PlanSwaps(request);
  if (!plan.ok()) {
    Fail(absl::StrCat("no plan: ", plan.status().ToString()));
    return nullptr;
  }
  life->plan = *std::move(plan);
  life->options.io.block_bytes = 4096u << random_.Below(4);
  life->options.io.depth = static_cast<uint32_t>(random_.Between(1, 12));
  life->options.workers = static_cast<int>(random_.Between(1, 3));
  life->options.executor = &world_;
  return life;
}

// --- A life ---------------------------------------------------------------------

absl::Status SimRun::CreateStore(Life& life) {
  for (const std::string& directory : directories_) {
    RETURN_IF_ERROR(SwapStore::RemoveLeftovers(directory, files_));
  }
  StoreOptions options;
  options.directories = directories_;
  options.files = &files_;
  if (life.update == UpdateMode::kDeferred) {
    for (const UnitPlacement& placement : life.plan.placements) {
      options.spill_gradients.push_back(placement.gradient == Tier::kNvme);
    }
  }
  auto store = SwapStore::Create(shape_.Layout(), options);
  if (store.ok()) {
    life.store = *std::move(store);
    return absl::OkStatus();
  }
  if (!disk_.crashed() && !disk_.Names().empty()) {
    Fail(absl::StrCat("a store that could not be made left ", disk_.Names().front()));
  }
  return store.status();
}

// Finds the last commit, or starts anew where there was none.
absl::Status SimRun::OpenStore(Life& life) {
  for (const std::string& name : disk_.Names()) {
    if (IsAtomicWriteLeftover(name)) RETURN_IF_ERROR(files_.Remove(name));
  }
  std::vector<bool> spill(shape_.units.size(), false);
  if (life.update == UpdateMode::kDeferred) {
    for (size_t u = 0; u < spill.size(); ++u) {
      spill[u] = life.plan.placements[u].gradient == Tier::kNvme;
    }
  }
  tally_.spilled_gradients += std::count(spill.begin(), spill.end(), true) > 0;
  CommitRecord record;
  auto store = SwapStore::Open(manifest_path_, /*read_only=*/false, spill, &record, files_);
  if (absl::IsNotFound(store.status())) {
    if (acknowledged_) {
      Fail(absl::StrCat("the commit of step ", acknowledged_->step,
                        " is gone: ", store.status().ToString()));
    }
    under_way_.reset();
    oracle_.emplace(shape_);
    step_ = 0;
    applied_ = 0;
    return CreateStore(life);
  }
  if (!store.ok()) return store.status();
  life.store = *std::move(store);
  ++tally_.resumes;
  if (under_way_ && record.step == under_way_->step) {
    acknowledged_ = std::move(under_way_);
    ++tally_.resumes_in_doubt;
  } else if (!acknowledged_ || record.step != acknowledged_->step) {
    Fail(absl::StrCat(
        "resume found the commit of step ", record.step, ", and ",
        acknowledged_ ? absl::StrCat("that of step ", acknowledged_->step) : std::string("none"),
        " was the last"));
    return Stopped();
  }
  under_way_.reset();
  if (record.engine_state != absl::StrCat("{\"step\":", record.step, "}")) {
    Fail(absl::StrCat("step ", record.step, " came back with the text ", record.engine_state));
  }
  oracle_ = acknowledged_->state;
  step_ = acknowledged_->step;
  applied_ = acknowledged_->applied;
  return absl::OkStatus();
}

// The right bytes under another generation or in another place are not the right bytes.
absl::Status SimRun::CheckIdentities(const SwapStore& store) {
  const StateLayout& layout = store.layout();
  const int unit = static_cast<int>(random_.Below(layout.num_units()));
  if (layout.NumTiles(unit) == 0) return absl::OkStatus();
  const int tile = static_cast<int>(random_.Below(layout.NumTiles(unit)));
  std::vector<char> buffer(layout.TileBytes(unit, tile));
  RETURN_IF_ERROR(ReadStoreTile(store, unit, tile, 0, 1, buffer.data()));
  ChecksumIdentity other =
      store.PlaneIdentity(unit, tile, 0, store.CurrentGeneration(unit, tile, 0));
  switch (random_.Below(4)) {
    case 0:
      ++other.generation;
      break;
    case 1:
      ++other.tile;
      break;
    case 2:
      ++other.unit;
      break;
    default:
      other.plane = static_cast<uint32_t>(Plane::kMomentum);
      break;
  }
  const uint64_t checksum = Checksum(other, buffer.data(), layout.PlaneBytes(unit, tile, 0));
  if (store.VerifyChecksum(unit, tile, 0, checksum).ok()) {
    Fail("the bytes of one generation and place pass for those of another");
  }
  return absl::OkStatus();
}

absl::Status SimRun::Live(Life& life) {
  RETURN_IF_ERROR(OpenStore(life));
  const bool resumed = step_ > 0;
  auto host = Arena::Create(life.plan.host_arena_bytes, &life.budget);
  auto device = Arena::Create(life.plan.device_arena_bytes, &life.budget);
  if (!host.ok() || !device.ok()) return absl::InternalError("no memory for the arenas");
  life.host = *std::move(host);
  life.device = *std::move(device);
  auto manager = SwapManager::Create(life.plan, life.store.get(), life.host.get(),
                                     life.device.get(), &life.compute, life.options);
  if (!manager.ok()) return manager.status();
  life.manager = *std::move(manager);
  if (resumed) {
    RETURN_IF_ERROR(CheckIdentities(*life.store));
    RETURN_IF_ERROR(life.manager->LoadResident());
  } else {
    RETURN_IF_ERROR(life.manager->Initialize(SimFill));
  }
  if (random_.OneIn(3)) RETURN_IF_ERROR(Compare(life));
  return Train(life);
}

// What the mover does while the compute thread computes.
void SimRun::LetItGoOn(Life& life) {
  for (uint64_t turns = random_.Below(6); turns > 0 && !world_.idle(); --turns) {
    life.manager->Turn();
  }
}

absl::Status SimRun::RunOps(Life& life, int count, bool train) {
  for (int op = 0; op < count; ++op) {
    if (!life.last && random_.OneIn(300)) return Stopped();
    world_.Trace("op", op, train);
    ASSIGN_OR_RETURN(const OpBuffers buffers, life.manager->BeginOp());
    const std::vector<int>& read = buffers.op->weights;
    const auto check = [&] {
      for (size_t i = 0; i < read.size(); ++i) {
        const auto& expected = oracle_->weights[read[i]];
        if (!std::equal(expected.begin(), expected.end(),
                        reinterpret_cast<const uint16_t*>(buffers.weights[i]))) {
          Fail(absl::StrCat("operation ", op, " after step ", step_,
                            " computes with wrong weights of unit ", read[i]));
        }
      }
    };
    check();
    for (size_t i = 0; train && i < buffers.op->gradients.size(); ++i) {
      const auto& weights = oracle_->weights[buffers.op->gradients[i]];
      SimAddGradient(op, weights.data(), weights.size(), buffers.fresh[i], buffers.gradients[i]);
      LetItGoOn(life);
    }
    LetItGoOn(life);
    check();  // they stay until EndOp
    life.manager->EndOp();
    if (random_.OneIn(4)) LetItGoOn(life);
  }
  return absl::OkStatus();
}

absl::Status SimRun::Compare(Life& life) {
  return life.manager->ReadState(0, 2, [&](const TileView& tile) {
    if (!SimSameTile(tile, *oracle_)) {
      Fail(absl::StrCat("unit ", tile.unit, " tile ", tile.tile, " after step ", step_,
                        " is not the oracle's"));
    }
    return absl::OkStatus();
  });
}

absl::Status SimRun::TrainStep(Life& life, bool more) {
  SwapManager& manager = *life.manager;
  const bool deferred = life.update == UpdateMode::kDeferred;
  if (!std::exchange(life.enqueued, false)) manager.Enqueue(Program::kTrain);
  UpdateScalars scalars;
  scalars.step = applied_ + 1;
  if (!deferred) {
    manager.AnnounceUpdate(scalars);
    if (more && !random_.OneIn(4)) {
      manager.Enqueue(Program::kTrain);
      life.enqueued = true;
    }
  }
  RETURN_IF_ERROR(RunOps(life, static_cast<int>(life.schedule.ops.size()), true));
  if (deferred) {
    scalars.skip = random_.OneIn(5);
    world_.Trace("gradients", scalars.skip);
    ASSIGN_OR_RETURN(const GradientTotal total, manager.AwaitGradients());
    manager.AnnounceUpdate(scalars);
    const double squares = oracle_->Step(life.schedule, scalars.step, scalars.skip);
    if (total.sum_of_squares != squares) Fail("the gradients have another norm");
  } else {
    oracle_->Step(life.schedule, scalars.step, false);
  }
  ++step_;
  ++tally_.steps;
  if (!scalars.skip) ++applied_;
  return absl::OkStatus();
}

// Begins a commit, which goes on beside what follows.
absl::Status SimRun::MaybeCommit(Life& life) {
  if (!random_.OneIn(2)) return absl::OkStatus();
  RETURN_IF_ERROR(life.manager->AwaitCommit());
  if (under_way_) Fail(absl::StrCat("the commit of step ", under_way_->step, " did not end"));
  world_.Trace("commit", step_);
  under_way_.emplace(Commit{step_, applied_, *oracle_});
  return life.manager->StartCommit(manifest_path_, {step_, absl::StrCat("{\"step\":", step_, "}")},
                                   [this] {
                                     world_.Trace("acknowledged", under_way_->step);
                                     acknowledged_ = std::move(under_way_);
                                     under_way_.reset();
                                     ++tally_.commits;
                                   });
}

// Now and then everything comes to rest between two steps.
absl::Status SimRun::RestAWhile(Life& life) {
  if (random_.OneIn(2)) return absl::OkStatus();
  SwapManager& manager = *life.manager;
  if (std::exchange(life.enqueued, false)) manager.AbandonQueued();
  world_.Trace("flush");
  RETURN_IF_ERROR(manager.Flush());
  while (random_.OneIn(3)) {  // begun, and thought better of
    manager.Enqueue(random_.OneIn(2) ? Program::kTrain : Program::kEvaluate);
    LetItGoOn(life);
    manager.AbandonQueued();
  }
  if (random_.OneIn(2)) {
    manager.Enqueue(Program::kEvaluate);
    RETURN_IF_ERROR(RunOps(life, static_cast<int>(shape_.units.size()), false));
    ++tally_.evaluations;
  }
  if (random_.OneIn(2)) RETURN_IF_ERROR(Compare(life));
  if (random_.OneIn(2)) RETURN_IF_ERROR(manager.AwaitCommit());
  return absl::OkStatus();
}

absl::Status SimRun::Train(Life& life) {
  for (int i = 0; i < life.steps; ++i) {
    RETURN_IF_ERROR(TrainStep(life, i + 1 < life.steps));
    if (random_.OneIn(2)) {
      RETURN_IF_ERROR(MaybeCommit(life));
      RETURN_IF_ERROR(RestAWhile(life));
    } else {
      RETURN_IF_ERROR(RestAWhile(life));
      RETURN_IF_ERROR(MaybeCommit(life));
    }
  }
  if (std::exchange(life.enqueued, false)) life.manager->AbandonQueued();
  RETURN_IF_ERROR(life.manager->Flush());
  RETURN_IF_ERROR(Compare(life));
  return life.manager->AwaitCommit();
}

// --- What must hold -------------------------------------------------------------

void SimRun::JudgeEnd(const absl::Status& status) {
  if (disk_.crashed() || !failure_.empty()) return;
  const SimFaults& faults = disk_.faults();
  const bool refused = faults.refusals() > refusals_before_;
  const bool lied = faults.lies() > 0;  // what was written in an earlier life may be read now
  if (status.ok() || absl::IsCancelled(status)) return;
  if (!refused && !lied) {
    Fail(absl::StrCat("an error without a fault: ", status.ToString()));
  }
  if (!absl::StrContains(status.message(), "/sim/")) {
    Fail(absl::StrCat("the error names no file: ", status.ToString()));
  }
  const bool sync_failed = faults.counts()[static_cast<int>(SimFault::kSyncError)] > 0;
  if (absl::IsDataLoss(status)) {
    if (!lied && !sync_failed) Fail(absl::StrCat("wrong bytes: ", status.ToString()));
    ++tally_.lies_reported;
    ++lives_with_lies_;
  } else if (refused) {
    ++tally_.refusals_reported;
  } else if (faults.counts()[static_cast<int>(SimFault::kSmallFileFlipped)] == 0 &&
             !absl::IsInvalidArgument(status)) {
    Fail(absl::StrCat("wrong bytes, reported as something else: ", status.ToString()));
  }
}

// Nothing open, and no files but the store's.
void SimRun::JudgeFiles() {
  if (disk_.open_handles != 0) Fail(absl::StrCat(disk_.open_handles, " files are still open"));
  if (disk_.crashed()) return;
  for (const std::string& name : disk_.Names()) {
    if (name != manifest_path_ && !absl::EndsWith(name, "/tiles")) {
      Fail(absl::StrCat(name, " was left behind"));
    }
  }
}

// With nothing running: the last commit opens, and every byte of it is the oracle's.
void SimRun::JudgeCommit() {
  if (!failure_.empty() || !acknowledged_) return;
  CommitRecord record;
  auto store = SwapStore::Open(manifest_path_, /*read_only=*/true, {}, &record, files_);
  absl::Status status = store.status();
  if (status.ok()) {
    const Commit* const found = record.step == acknowledged_->step              ? &*acknowledged_
                                : under_way_ && record.step == under_way_->step ? &*under_way_
                                                                                : nullptr;
    if (found == nullptr) {
      return Fail(absl::StrCat("the commit of step ", record.step, " is there instead of that of ",
                               acknowledged_->step));
    }
    status = ReadStore(**store, 0, 2, [&](const TileView& tile) {
      if (!SimSameTile(tile, found->state)) {
        Fail(absl::StrCat("unit ", tile.unit, " tile ", tile.tile, " of the commit of step ",
                          record.step, " is not the oracle's"));
      }
      return absl::OkStatus();
    });
  }
  if (status.ok()) return;
  const bool wrong_bytes = absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
  if (disk_.faults().lies() > 0 && wrong_bytes) return;
  Fail(absl::StrCat("the commit of step ", acknowledged_->step,
                    " does not open: ", status.ToString()));
}

// --- From life to life ------------------------------------------------------------

void SimRun::LiveOnce(bool last) {
  disk_.faults().DisarmAll();
  refusals_before_ = disk_.faults().refusals();
  disk_.Boot();
  if (!last) ArmLife();
  const std::unique_ptr<Life> life = DrawLife(last);
  if (life == nullptr) return;
  world_.Trace(life->update == UpdateMode::kDeferred ? "life, deferred" : "life, immediate",
               static_cast<uint64_t>(life->steps));
  const absl::Status status = Live(*life);
  life->manager.reset();
  life->store.reset();
  world_.Trace(status.ok() ? "end" : "error", static_cast<uint64_t>(status.raw_code()));
  if (disk_.crashed())
    ++(disk_.crash_kind() == SimDisk::CrashKind::kKill ? tally_.kills : tally_.power_losses);
  JudgeEnd(status);
  JudgeFiles();
}

SimResult SimRun::Go() {
  DrawShape();
  DrawFaults();
  const uint64_t lives = random_.Between(1, 5);
  for (uint64_t i = 0; i < lives && failure_.empty(); ++i) {
    LiveOnce(/*last=*/false);
    disk_.faults().DisarmAll();
    // What is there after the process has died; sometimes the power goes too, later.
    disk_.Boot();
    if (random_.OneIn(4)) disk_.LosePower();
    if (random_.OneIn(2)) JudgeCommit();
    if (lives_with_lies_ >= kMostLivesWithLies) break;
  }
  if (failure_.empty()) {
    LiveOnce(/*last=*/true);
    disk_.Boot();
    JudgeCommit();
  }
  tally_.faults = disk_.faults().counts();
  SimResult result;
  result.trace_hash = world_.trace_hash();
  result.tally = tally_;
  if (!failure_.empty()) {
    result.failure = absl::StrCat(failure_, "\n  faults: ", disk_.faults().Summary());
  }
  return result;
}

}  // namespace

void SimTally::Add(const SimTally& other) {
  for (int i = 0; i < kSimFaults; ++i) faults[i] += other.faults[i];
  kills += other.kills;
  power_losses += other.power_losses;
  resumes += other.resumes;
  resumes_in_doubt += other.resumes_in_doubt;
  commits += other.commits;
  steps += other.steps;
  evaluations += other.evaluations;
  spilled_gradients += other.spilled_gradients;
  refusals_reported += other.refusals_reported;
  lies_reported += other.lies_reported;
}

SimResult RunSimSeed(uint64_t seed, bool print_trace) { return SimRun(seed, print_trace).Go(); }

}  // namespace spillway
