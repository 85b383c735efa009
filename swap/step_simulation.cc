#include "swap/step_simulation.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>

#include "io/check.h"
#include "swap/phase_traffic.h"

namespace spillway {

double DiskRates::Seconds(double read_bytes, double written_bytes) const {
  const auto seconds = [](double bytes, double rate) {
    if (bytes <= 0) return 0.0;
    SPILLWAY_CHECK(rate > 0);
    return bytes / rate;
  };
  return std::max({seconds(read_bytes, read_bytes_per_second),
                   seconds(written_bytes, write_bytes_per_second),
                   seconds(read_bytes + written_bytes, mixed_bytes_per_second)});
}

namespace {

constexpr int kSteps = 3;  // the last one counts
constexpr double kNever = std::numeric_limits<double>::infinity();

class Simulation {
 public:
  Simulation(const SwapPlan& plan, const StepClock& clock)
      : plan_(plan), clock_(clock), settled_(plan.layout.num_units(), 0) {
    SPILLWAY_CHECK(clock.op_seconds.size() == plan.schedule.ops.size());
    for (int step = 0; step < kSteps; ++step) AddStays(step);
  }

  SimulatedStep Run();

 private:
  enum class State { kWaiting, kAllocated, kFilling, kReady, kReleased };
  enum class Use { kWeights, kSums, kSavedInput, kLoadedInput };
  struct Stay {
    Use use = Use::kWeights;
    bool fetched() const { return use == Use::kWeights || use == Use::kLoadedInput; }
    bool feeds_update = false;
    bool takes_over = false;
    int unit = 0;
    int version = 0;
    int first_op = 0, last_op = 0, lead_ops = 0;  // in the line of all steps' ops
    ArenaSpan span;
    State state = State::kWaiting;
    double left = 0;              // of the fetch, in seconds of the whole disk
    std::vector<Stay*> overlaps;  // earlier ones at the same addresses
  };
  struct Pass {
    bool round = false;  // or the writing of an input
    int unit = 0;
    int version = 0;
    Stay* sums = nullptr;
    Stay* weights = nullptr;
    Stay* destination = nullptr;
    double disk_seconds = 0;
    double worker_seconds = 0;
    double left = 1;  // of the whole
    bool begun = false;
  };

  double GradientBytes(int unit) const {
    return static_cast<double>(plan_.layout.PaddedParameters(unit) *
                               plan_.layout.gradient_bytes_per_parameter());
  }
  int ops() const { return static_cast<int>(plan_.schedule.ops.size()); }
  const StepOp& Op(int op) const { return plan_.schedule.ops[op % ops()]; }
  void AddStays(int step);
  bool Free(const Stay& stay) const;
  bool Ready(int op) const;
  Stay* Find(Use use, int unit, int op) const;
  bool CanFetch(const Stay& stay) const;
  void Pump();
  void FinishOp(int op);
  void AddUpdate(int unit, int version, Stay* sums);
  bool CanRun(Pass& pass);
  void EndPass(Pass& pass);
  // Lets time pass until something ends.
  void Advance();

  const SwapPlan& plan_;
  const StepClock& clock_;
  std::vector<std::unique_ptr<Stay>> stays_;
  std::vector<int> settled_;  // [unit] version in its place
  std::deque<Pass> passes_;   // updates, in order
  std::deque<Pass> rounds_;
  int next_op_ = 0;          // not yet begun
  double compute_left_ = 0;  // of the op that runs
  bool computing_ = false;
  double now_ = 0, disk_busy_ = 0, stalled_ = 0;
};

void Simulation::AddStays(int step) {
  const size_t begin = stays_.size();
  const int base = step * ops();
  const auto add = [&](Use use, int unit, int first_op, int last_op, int lead,
                       const ArenaSpan& span) {
    auto stay = std::make_unique<Stay>();
    stay->use = use;
    stay->unit = unit;
    stay->version = step;
    stay->first_op = base + first_op;
    stay->last_op = base + last_op;
    stay->lead_ops = lead;
    stay->span = span;
    // From the host's memory to a separate device: the link is not simulated.
    const bool in_memory = use == Use::kWeights && plan_.placements[unit].weight != Tier::kNvme;
    if (stay->fetched() && !in_memory) {
      stay->left = clock_.disk.Seconds(static_cast<double>(span.bytes), 0);
    }
    stays_.push_back(std::move(stay));
  };
  for (const WeightStay& stay : plan_.weight_stays) {
    add(Use::kWeights, stay.unit, stay.first_op, stay.last_op, stay.lead_ops, stay.span);
    stays_.back()->feeds_update = stay.feeds_update;
    stays_.back()->takes_over = stay.takes_over;
  }
  for (const GradientStay& stay : plan_.gradient_stays) {
    add(Use::kSums, stay.unit, stay.first_op, stay.last_op, 0, stay.span);
  }
  for (const ActivationStay& stay : plan_.activation_stays) {
    add(stay.loads ? Use::kLoadedInput : Use::kSavedInput, stay.unit, stay.op, stay.op,
        stay.lead_ops, stay.span);
  }
  std::stable_sort(stays_.begin() + begin, stays_.end(),
                   [](const auto& a, const auto& b) { return a->first_op < b->first_op; });
  for (size_t i = begin; i < stays_.size(); ++i) {
    const ArenaSpan& span = stays_[i]->span;
    for (size_t j = 0; j < i; ++j) {
      const ArenaSpan& other = stays_[j]->span;
      if (stays_[i]->takes_over && stays_[j]->feeds_update && stays_[j]->unit == stays_[i]->unit &&
          stays_[j]->version + 1 == stays_[i]->version) {
        continue;
      }
      if (span.Overlaps(other)) {
        stays_[i]->overlaps.push_back(stays_[j].get());
      }
    }
  }
}

bool Simulation::Free(const Stay& stay) const {
  return std::all_of(stay.overlaps.begin(), stay.overlaps.end(),
                     [](const Stay* other) { return other->state == State::kReleased; });
}

Simulation::Stay* Simulation::Find(Use use, int unit, int op) const {
  for (const auto& stay : stays_) {
    if (stay->use == use && stay->unit == unit && stay->first_op <= op && op <= stay->last_op) {
      return stay.get();
    }
  }
  return nullptr;
}

bool Simulation::Ready(int op) const {
  for (int unit : Op(op).weights) {
    if (plan_.ReadsHome(unit)) {
      if (settled_[unit] < op / ops()) return false;
    } else if (Find(Use::kWeights, unit, op)->state != State::kReady) {
      return false;
    }
  }
  for (int unit : Op(op).gradients) {
    if (Find(Use::kSums, unit, op)->state != State::kReady) return false;
  }
  const int unit = Op(op).unit;
  if (Op(op).kind == OpKind::kLoss || plan_.activations[unit] != Tier::kNvme) return true;
  const Use use = Op(op).kind == OpKind::kForward ? Use::kSavedInput : Use::kLoadedInput;
  return Find(use, unit, op)->state == State::kReady;
}

bool Simulation::CanFetch(const Stay& stay) const {
  if (stay.use == Use::kWeights) return settled_[stay.unit] == stay.version;
  return std::any_of(stays_.begin(), stays_.end(), [&](const auto& saved) {
    return saved->use == Use::kSavedInput && saved->unit == stay.unit &&
           saved->version == stay.version && saved->state == State::kReleased;
  });
}

// Starts all that can start.
void Simulation::Pump() {
  for (const auto& stay : stays_) {
    if (stay->state == State::kWaiting && stay->first_op - stay->lead_ops <= next_op_ &&
        Free(*stay)) {
      stay->state = stay->fetched() ? State::kAllocated : State::kReady;
    }
    if (stay->state == State::kAllocated && CanFetch(*stay)) stay->state = State::kFilling;
  }
  if (!computing_ && next_op_ < kSteps * ops() && Ready(next_op_)) {
    computing_ = true;
    compute_left_ = clock_.op_seconds[next_op_ % ops()];
    ++next_op_;
  }
}

void Simulation::AddUpdate(int unit, int version, Stay* sums) {
  const double parameters = static_cast<double>(plan_.layout.PaddedParameters(unit));
  const bool spilled = plan_.deferred[unit] && plan_.placements[unit].gradient == Tier::kNvme;
  Pass pass;
  pass.unit = unit;
  pass.version = version;
  pass.sums = sums;
  if (sums && plan_.weight_at_hand[unit]) pass.weights = Find(Use::kWeights, unit, next_op_ - 1);
  pass.disk_seconds = clock_.disk.Seconds(
      parameters * plan_.UpdateBytesRead(unit) + (spilled ? GradientBytes(unit) : 0),
      parameters * plan_.UpdateBytesWritten(unit));
  Pass rest;
  rest.round = true;
  rest.unit = -1;
  if (sums && unit == plan_.turn_unit) {
    // What was read ahead, and what waits to be written, keeps the disk busy without anybody
    // waiting for it.
    const double tiles = plan_.layout.NumTiles(unit);
    const double read = std::max(0.0, 1 - plan_.turn_tiles() / tiles);
    const double written = std::max(0.0, read - plan_.tile_buffers / tiles);
    const double whole = pass.disk_seconds;
    pass.disk_seconds = clock_.disk.Seconds(parameters * plan_.UpdateBytesRead(unit) * read,
                                            parameters * plan_.UpdateBytesWritten(unit) * written);
    rest.disk_seconds = whole - pass.disk_seconds;
  }
  const uint64_t touched = UpdateTouches(plan_, unit) + (sums ? RoundTouches(plan_, unit) : 0);
  pass.worker_seconds = static_cast<double>(touched) / clock_.update_bytes_per_second;
  passes_.push_back(pass);
  if (rest.disk_seconds > 0) passes_.push_back(rest);
}

void Simulation::FinishOp(int op) {
  const int version = op / ops() + 1;
  std::vector<Stay*> complete;
  for (const auto& stay : stays_) {
    if (stay->last_op != op || stay->state == State::kReleased) continue;
    if (stay->use == Use::kSums) {
      complete.push_back(stay.get());
    } else if (stay->use == Use::kSavedInput) {
      Pass save;
      save.round = true;
      save.unit = -1;  // no gradient that an update would wait for
      save.sums = stay.get();
      save.disk_seconds = clock_.disk.Seconds(0, static_cast<double>(stay->span.bytes));
      rounds_.push_back(save);
    } else if (!stay->feeds_update) {
      stay->state = State::kReleased;
    }
  }
  for (Stay* sums : complete) {
    if (!plan_.deferred[sums->unit]) {
      AddUpdate(sums->unit, version, sums);
      continue;
    }
    Pass round;
    round.round = true;
    round.unit = sums->unit;
    round.sums = sums;
    if (plan_.placements[sums->unit].gradient == Tier::kNvme) {
      round.disk_seconds = clock_.disk.Seconds(0, GradientBytes(sums->unit));
    }
    round.worker_seconds =
        static_cast<double>(RoundTouches(plan_, sums->unit)) / clock_.update_bytes_per_second;
    rounds_.push_back(round);
  }
  if ((op + 1) % ops() != 0) return;
  std::vector<bool> seen(plan_.layout.num_units(), false);
  for (const StepOp& step_op : plan_.schedule.ops) {
    for (int unit : step_op.weights) {
      if (seen[unit] || !plan_.deferred[unit]) continue;
      seen[unit] = true;
      AddUpdate(unit, version, nullptr);
    }
  }
}

bool Simulation::CanRun(Pass& pass) {
  if (pass.begun || pass.round) return true;
  if (settled_[pass.unit] != pass.version - 1) return false;
  if (!pass.sums && std::any_of(rounds_.begin(), rounds_.end(),
                                [&](const Pass& round) { return round.unit == pass.unit; })) {
    return false;
  }
  if (plan_.placements[pass.unit].weight == Tier::kNvme) {
    for (const auto& stay : stays_) {
      if (stay->use != Use::kWeights || stay->unit != pass.unit || stay->version != pass.version)
        continue;
      if (stay->state == State::kReleased) continue;
      if (stay->state == State::kAllocated) pass.destination = stay.get();
      break;
    }
    // After the last step there is no forward to wait for.
    if (!pass.destination && !pass.sums && pass.version < kSteps) return false;
  }
  pass.begun = true;
  if (pass.destination) pass.destination->state = State::kFilling;
  return true;
}

void Simulation::EndPass(Pass& pass) {
  if (pass.sums) pass.sums->state = State::kReleased;
  if (pass.round) return;
  if (pass.weights) pass.weights->state = State::kReleased;
  if (pass.destination) pass.destination->state = State::kReady;
  settled_[pass.unit] = pass.version;
}

void Simulation::Advance() {
  // Fetches in order, each with the whole disk; one that an update fills is no fetch.
  Stay* fetch = nullptr;
  for (const auto& stay : stays_) {
    if (!stay->fetched() || stay->state != State::kFilling) continue;
    const bool filled = std::any_of(passes_.begin(), passes_.end(), [&](const Pass& pass) {
      return pass.destination == stay.get();
    });
    if (filled) continue;
    fetch = stay.get();
    break;
  }
  Pass* round = rounds_.empty() ? nullptr : &rounds_.front();
  Pass* update = !passes_.empty() && CanRun(passes_.front()) ? &passes_.front() : nullptr;

  // Parts of the disk; a deferred update reads in the same class as a fetch.
  const bool shares = update && !update->sums && !update->round && update->disk_seconds > 0;
  const double fetch_disk = fetch ? (shares ? 0.5 : 1.0) : 0;
  const auto rate_of = [](const Pass* pass, double disk, double workers) {
    if (pass == nullptr) return 0.0;
    double rate = kNever;
    if (pass->disk_seconds > 0) rate = std::min(rate, disk / pass->disk_seconds);
    if (pass->worker_seconds > 0) rate = std::min(rate, workers / pass->worker_seconds);
    return rate == kNever ? 1e9 : rate;
  };
  const double round_rate = rate_of(round, 1 - fetch_disk, 1);
  const double round_disk = round ? round_rate * round->disk_seconds : 0;
  const double round_workers = round ? round_rate * round->worker_seconds : 0;
  const double update_rate =
      rate_of(update, std::max(0.0, 1 - fetch_disk - round_disk), std::max(0.0, 1 - round_workers));
  const double workers = round_workers + (update ? update_rate * update->worker_seconds : 0);
  // Never quite nothing: then both would share the cores.
  const double compute_rate = std::max(0.05, 1 - clock_.shared_cores * workers);

  double passed = kNever;
  const auto ends_after = [&](double left, double rate) {
    if (rate > 0) passed = std::min(passed, left / rate);
  };
  if (fetch) ends_after(fetch->left, fetch_disk);
  if (round) ends_after(round->left, round_rate);
  if (update) ends_after(update->left, update_rate);
  if (computing_) ends_after(compute_left_, compute_rate);
  SPILLWAY_CHECK(passed < kNever && "a plan whose steps come to a standstill");

  now_ += passed;
  const bool disk = fetch || round_disk > 0 || (update && update->disk_seconds > 0);
  if (disk) disk_busy_ += passed;
  if (!computing_) stalled_ += passed;
  const auto done = [&](double& left, double rate) {
    left -= passed * rate;
    if (left > 1e-12) return false;
    left = 0;
    return true;
  };
  if (fetch && done(fetch->left, fetch_disk)) fetch->state = State::kReady;
  const bool round_ends = round && done(round->left, round_rate);
  const bool update_ends = update && done(update->left, update_rate);
  if (round_ends) {
    EndPass(*round);
    rounds_.pop_front();
  }
  if (update_ends) {
    EndPass(*update);
    passes_.pop_front();
  }
  if (computing_ && done(compute_left_, compute_rate)) {
    computing_ = false;
    FinishOp(next_op_ - 1);
  }
}

SimulatedStep Simulation::Run() {
  const int loss_op =
      static_cast<int>(std::find_if(plan_.schedule.ops.begin(), plan_.schedule.ops.end(),
                                    [](const StepOp& op) { return op.kind == OpKind::kLoss; }) -
                       plan_.schedule.ops.begin());
  const int counted = (kSteps - 1) * ops();
  SimulatedStep before, step;
  double forward_end = 0;
  while (true) {
    Pump();
    const int done = next_op_ - (computing_ ? 1 : 0);
    if (done == counted && before.seconds == 0) before = {now_, 0, disk_busy_, stalled_};
    if (done == counted + loss_op && forward_end == 0) forward_end = now_;
    if (done == counted + ops()) break;
    Advance();
  }
  step.seconds = now_ - before.seconds;
  step.forward_seconds = std::max(0.0, forward_end - before.seconds);
  step.disk_seconds = disk_busy_ - before.disk_seconds;
  step.stall_seconds = stalled_ - before.stall_seconds;
  return step;
}

}  // namespace

SimulatedStep SimulateStep(const SwapPlan& plan, const StepClock& clock) {
  return Simulation(plan, clock).Run();
}

}  // namespace spillway
