#include "tests/sim/sim_run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "swap/plan/planner.h"
#include "tests/sim/sim_run_internal.h"

namespace spillway {
namespace {

// A run with lies in it ends when so many lives have ended in wrong bytes.
constexpr int kMostLivesWithLies = 3;

}  // namespace

// --- What the seed draws --------------------------------------------------------

void SimRun::DrawShape() {
  const int units = static_cast<int>(random_.Between(1, 4));
  shape_.tile_parameters = 2048 * random_.Between(1, 2);
  shape_.residual = random_.OneIn(3);
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
  shape_.frozen.assign(units, false);
  for (int u = 0; u < units; ++u) {
    shape_.frozen[u] = random_.OneIn(6);
    if (!random_.OneIn(6)) continue;
    // Beside what is trained of it.
    shape_.borrows[u].push_back(static_cast<int>(shape_.units.size()));
    shape_.units.push_back(2048 * random_.Between(1, 2));
    shape_.frozen.push_back(true);
  }
  const auto& frozen = shape_.frozen;
  if (std::find(frozen.begin(), frozen.end(), false) == frozen.end()) shape_.frozen[0] = false;
  for (const std::string& directory : directories_) disk_.AddDirectory(directory);
  disk_.AddDirectory("/sim/run");
  disk_.AddDirectory(kSimCopyDirectory);
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
    const bool read = fault == SimFault::kReadSmallError || fault == SimFault::kSmallFileFlipped ||
                      fault == SimFault::kSmallFileStale;
    const bool small = fault >= SimFault::kSmallFileFlipped;
    // Few reads are of bytes that have changed since they were durable.
    const bool seldom = small || fault == SimFault::kStale;
    const uint64_t most = read ? 1 : rare ? 6 : seldom ? 3 : uint64_t{1} << random_.Between(2, 8);
    faults.Arm(fault, random_.Below(most));
  };
  // None, one, or several: what goes wrong while an error is dealt with, too.
  const auto several = [&] { return random_.OneIn(3) ? 0 : random_.OneIn(2) ? 1 : 3; };
  for (int n = refusals_ ? several() : 0; n > 0; --n) {
    arm(SimFault::kReadError, SimFault::kReadSmallError);
  }
  for (int n = lies_ ? several() : 0; n > 0; --n) {
    arm(SimFault::kFlippedOnMedium, SimFault::kSmallFileStale);
  }
  if (random_.OneIn(4)) return;
  const auto kind = random_.OneIn(2) ? SimDisk::CrashKind::kKill : SimDisk::CrashKind::kPowerLoss;
  if (random_.OneIn(2)) {
    disk_.ArmCrash(kind, random_.Below(60), SimDisk::CrashAt::kCalls);
  } else {
    disk_.ArmCrash(kind, random_.Below(uint64_t{1} << random_.Between(2, 10)),
                   SimDisk::CrashAt::kAny);
  }
}

std::unique_ptr<SimRun::Life> SimRun::DrawLife(bool last) {
  auto life = std::make_unique<Life>(shape_);
  life->last = last;
  life->steps = static_cast<int>(random_.Between(1, 10));
  life->update = random_.OneIn(2) ? UpdateMode::kImmediate : UpdateMode::kDeferred;
  MeasurePasses measures;
  if (life->update == UpdateMode::kDeferred && random_.OneIn(2)) {
    measures = {static_cast<int>(random_.Below(3)), static_cast<int>(random_.Below(2))};
  }
  life->schedule = shape_.Schedule(life->update, measures);
  life->compute.SetMeasures(measures);
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
  request.deferred_share = static_cast<double>(random_.Below(3)) / 2;
  if (random_.OneIn(2)) {
    constexpr TierChoice kInputs[] = {TierChoice::kNvme, TierChoice::kAuto, TierChoice::kHost};
    request.activations = kInputs[random_.Below(3)];
    for (size_t u = 0; u < shape_.units.size(); ++u) {
      request.activation_bytes.push_back(random_.Below(3) * random_.Below(9000));
    }
    request.input_in_flight_bytes = 20000;  // more than any
    life->salt = random_.Below(1 << 16);
  }
  request.separate_device = random_.OneIn(2);
  if (request.separate_device && random_.OneIn(3)) {
    request.weights = TierChoice::kDevice;
    if (random_.OneIn(2) && measures.all() == 0) request.optimizer = TierChoice::kDevice;
  }
  if (request.separate_device) {
    request.device_update_share = static_cast<double>(random_.Below(3)) / 2;
  }
  for (size_t u = 0; u < shape_.units.size() && !request.separate_device; ++u) {
    request.rounded_sums.push_back(random_.OneIn(2));
  }
  const auto smallest = SmallestBudgets(request);
  if (!smallest.ok()) {
    Fail(absl::StrCat("no budgets: ", smallest.status().ToString()));
    return nullptr;
  }
  // From just enough, one way or another, to room for everything.
  const BudgetPair& least = (*smallest)[random_.Below(smallest->size())];
  const auto spare = [&](uint64_t least, uint64_t most) {
    return random_.OneIn(3) ? 0 : random_.Below(uint64_t{1} << random_.Between(least, most));
  };
  request.host_bytes = least.host_bytes + spare(12, 18);
  request.device_bytes = least.device_bytes + spare(14, 20);
  auto plan = PlanSwaps(request);
  if (!plan.ok()) {
    Fail(absl::StrCat("no plan: ", plan.status().ToString()));
    return nullptr;
  }
  life->plan = *std::move(plan);
  if (life->plan.host_arena_bytes > request.host_bytes ||
      life->plan.device_bytes() > request.device_bytes) {
    Fail(absl::StrCat("a plan takes ", life->plan.host_arena_bytes, " and ",
                      life->plan.device_bytes(), " bytes, and may take ", request.host_bytes,
                      " and ", request.device_bytes));
    return nullptr;
  }
  const std::vector<bool>& streamed = life->plan.streams_update;
  tally_.streaming_lives += std::count(streamed.begin(), streamed.end(), true) > 0;
  life->options.io.block_bytes = 4096u << random_.Below(4);
  life->options.io.depth = static_cast<uint32_t>(random_.Between(1, 12));
  life->options.workers = static_cast<int>(random_.Between(1, 3));
  life->options.executor = &world_;
  if (request.separate_device) {
    TestDeviceOptions device;
    device.executor = &world_;
    device.run_one = [this] { return world_.RunOne(); };
    life->gpu = std::make_unique<TestDevice>(device);
    life->options.device = life->gpu.get();
  }
  return life;
}

// --- From life to life ------------------------------------------------------------

void SimRun::LiveOnce(bool last) {
  disk_.faults().DisarmAll();
  refusals_before_ = disk_.faults().refusals();
  lies_before_ = disk_.faults().lies();
  disk_.Boot();
  if (!last) ArmLife();
  const std::unique_ptr<Life> life = DrawLife(last);
  if (life == nullptr) return;
  world_.Trace(life->update == UpdateMode::kDeferred ? "life, deferred" : "life, immediate",
               static_cast<uint64_t>(life->steps));
  const absl::Status status = Live(*life);
  life->manager.reset();
  life->store.reset();
  tally_.device_lives += life->gpu != nullptr && life->gpu->copies() > 0;
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

void SimTally::Add(const SimTally& other) {
  for (int i = 0; i < kSimFaults; ++i) {
    faults[i] += other.faults[i];
    lies_detected[i] += other.lies_detected[i];
  }
  kills += other.kills;
  power_losses += other.power_losses;
  resumes += other.resumes;
  resumes_in_doubt += other.resumes_in_doubt;
  commits += other.commits;
  steps += other.steps;
  evaluations += other.evaluations;
  spilled_gradients += other.spilled_gradients;
  spilled_inputs += other.spilled_inputs;
  device_lives += other.device_lives;
  streaming_lives += other.streaming_lives;
  early_begins += other.early_begins;
  given_up_whole += other.given_up_whole;
  given_up_torn += other.given_up_torn;
  refusals_reported += other.refusals_reported;
  lies_reported += other.lies_reported;
}

SimResult RunSimSeed(uint64_t seed, bool print_trace) { return SimRun(seed, print_trace).Go(); }

}  // namespace spillway
