#include "swap/plan/step_simulation.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "io/base/check.h"
#include "swap/plan/phase_traffic.h"

namespace spillway {
namespace {

// Seconds that something takes of each resource, were it alone there; or parts of each, in [0, 1].
struct Shares {
  double disk = 0;
  double workers = 0;
  double to_device = 0;
  double to_host = 0;  // with what a separate device computes in that stream
};

// What is where, what waits for what, and how much of the disk, the workers and the link each
// has.
class Simulation {
 public:
  // Both outlive it.
  Simulation(const SwapPlan& plan, const StepClock& clock);

  SimulatedStep Run();

 private:
  static constexpr int kSteps = 3;  // the last one counts

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
    Shares needs;     // of the fetch
    double left = 1;  // of the whole
    int number = 0;   // in the order of all
    // Those that had its addresses just before: they were released only after those before them.
    std::vector<Stay*> overlaps;
  };
  struct Pass {
    bool round = false;     // or the writing of an input
    bool streamed = false;  // through a separate device
    int unit = 0;
    int version = 0;
    Stay* sums = nullptr;
    Stay* weights = nullptr;
    Stay* destination = nullptr;
    Shares needs;
    double left = 1;  // of the whole
    bool begun = false;
    int number = 0;  // in the order of all
  };
  // The stays at every address so far, as disjoint spans: begin -> end and the last one there.
  using LastThere = std::map<uint64_t, std::pair<uint64_t, Stay*>>;

  double GradientBytes(int unit) const {
    return static_cast<double>(plan_.layout.PaddedParameters(unit) *
                               plan_.layout.gradient_bytes_per_parameter());
  }
  double ToDevice(uint64_t bytes) const {
    return clock_.link.SecondsToDevice(static_cast<double>(bytes));
  }
  double ToHost(uint64_t bytes) const {
    return clock_.link.SecondsToHost(static_cast<double>(bytes));
  }
  double OnDevice(uint64_t touched) const {
    return SecondsAt(clock_.device_update_bytes_per_second, static_cast<double>(touched));
  }
  double OnWorkers(uint64_t touched) const {
    return SecondsAt(clock_.update_bytes_per_second, static_cast<double>(touched));
  }
  // Rounding a complete gradient, and bringing it to the host's memory.
  void AddRounding(int unit, Shares& needs) const;
  void BeginOp();
  // With several ranks: that operation's collective may begin, and so may the next computation.
  bool MayExchange(int op) const;
  bool MayCompute() const;
  void BeginComputation();
  int computations() const { return static_cast<int>(clock_.collective->computations.size()); }
  // Of all steps, that are at an end: operations of the schedule, and what computes, which are the
  // same with one rank.
  int OpsBehind() const {
    return next_op_ - ((clock_.collective ? exchanging_ : computing_) ? 1 : 0);
  }
  int ComputedBehind() const {
    return clock_.collective ? next_computation_ - (computing_ ? 1 : 0) : OpsBehind();
  }
  int ops() const { return static_cast<int>(plan_.schedule.ops.size()); }
  const StepOp& Op(int op) const { return plan_.schedule.ops[op % ops()]; }
  void AddStays(int step);
  // Sets what it has to wait for.
  void TakeAddresses(Stay& stay);
  bool Free(const Stay& stay) const;
  bool Ready(int op) const;
  Stay* Find(Use use, int unit, int op) const;
  bool CanFetch(const Stay& stay) const;
  void Pump();
  void FinishOp(int op);
  void AddUpdate(int unit, int version, Stay* sums);
  bool CanRun(Pass& pass);
  // The first of its kind, if it can go on.
  Pass* NextUpdate(bool streamed);
  void EndPass(Pass& pass);
  // The stay that is filled next, of those in the store or of those in the host's memory.
  Stay* NextFetch(bool from_store) const;
  // Lets time pass until something ends.
  void Advance();

  // The updates under way: the first of each kind.
  std::deque<Pass>& Passes(bool streamed) { return streamed ? streamed_ : passes_; }
  void AddPass(Pass pass);

  const SwapPlan& plan_;
  const StepClock& clock_;
  std::deque<Stay> stays_;                          // by step and first operation
  std::vector<std::vector<Stay*>> of_unit_[4];      // [use][unit] in order
  std::vector<std::vector<Stay*>> last_used_by_;    // [op]
  std::vector<std::vector<Stay*>> addresses_from_;  // [op] from which on they may have them
  LastThere last_there_[2];                         // [tier]
  int entered_ = 0;                                 // ops of `addresses_from_` that are behind
  std::vector<Stay*> entering_;                     // waiting or allocated, in order
  std::vector<Stay*> filling_;                      // in order
  std::vector<int> settled_;                        // [unit] version in its place
  std::deque<Pass> passes_, streamed_;              // updates, each kind in order
  int passes_added_ = 0;
  std::deque<Pass> rounds_;
  std::vector<int> rounds_of_;  // [unit] of them
  int next_op_ = 0;             // not yet begun
  double compute_left_ = 0;     // of the op, or the computation, that runs
  Shares input_;                // what it copies of its unit's inputs, before it computes
  double input_left_ = 0;       // of the whole
  bool computing_ = false;
  // With several ranks.
  int next_computation_ = 0;
  bool exchanging_ = false;  // an operation of the schedule runs
  double exchange_left_ = 0;
  double now_ = 0, disk_busy_ = 0, copy_busy_ = 0, exchange_busy_ = 0, stalled_ = 0;
};

Simulation::Simulation(const SwapPlan& plan, const StepClock& clock)
    : plan_(plan),
      clock_(clock),
      last_used_by_(kSteps * ops()),
      addresses_from_(kSteps * ops()),
      settled_(plan.layout.num_units(), 0),
      rounds_of_(plan.layout.num_units(), 0) {
  for (auto& of_unit : of_unit_) of_unit.resize(plan.layout.num_units());
  SPILLWAY_CHECK((clock.collective ? clock.collective->seconds : clock.op_seconds).size() ==
                 plan.schedule.ops.size());
  for (int step = 0; step < kSteps; ++step) AddStays(step);
}

void Simulation::AddStays(int step) {
  std::vector<Stay> added;
  const int base = step * ops();
  const auto add = [&](Use use, int unit, int first_op, int last_op, int lead,
                       const ArenaSpan& span) {
    Stay& stay = added.emplace_back();
    stay.use = use;
    stay.unit = unit;
    stay.version = step;
    stay.first_op = base + first_op;
    stay.last_op = base + last_op;
    stay.lead_ops = lead;
    stay.span = span;
    const bool in_memory = use == Use::kWeights && plan_.placements[unit].weight != Tier::kNvme;
    if (stay.fetched() && !in_memory) {
      stay.needs.disk = clock_.disk.Seconds(static_cast<double>(span.bytes), 0);
    }
    if (use == Use::kWeights && plan_.separate_device) stay.needs.to_device = ToDevice(span.bytes);
  };
  for (const WeightStay& stay : plan_.weight_stays) {
    add(Use::kWeights, stay.unit, stay.first_op, stay.last_op, stay.lead_ops, stay.span);
    added.back().feeds_update = stay.feeds_update;
    added.back().takes_over = stay.takes_over;
  }
  for (const GradientStay& stay : plan_.gradient_stays) {
    add(Use::kSums, stay.unit, stay.first_op, stay.last_op, 0, stay.span);
  }
  for (const ActivationStay& stay : plan_.activation_stays) {
    add(stay.loads ? Use::kLoadedInput : Use::kSavedInput, stay.unit, stay.op, stay.op,
        stay.lead_ops, stay.span);
  }
  std::stable_sort(added.begin(), added.end(),
                   [](const Stay& a, const Stay& b) { return a.first_op < b.first_op; });
  for (const Stay& each : added) {
    Stay& stay = stays_.emplace_back(each);
    stay.number = static_cast<int>(stays_.size());
    TakeAddresses(stay);
    of_unit_[static_cast<int>(stay.use)][stay.unit].push_back(&stay);
    last_used_by_[stay.last_op].push_back(&stay);
    addresses_from_[std::max(0, stay.first_op - stay.lead_ops)].push_back(&stay);
  }
}

void Simulation::TakeAddresses(Stay& stay) {
  if (stay.span.bytes == 0) return;
  LastThere& last = last_there_[static_cast<int>(stay.span.tier)];
  const uint64_t begin = stay.span.offset, end = begin + stay.span.bytes;
  auto at = last.upper_bound(begin);
  if (at != last.begin() && std::prev(at)->second.first > begin) --at;
  while (at != last.end() && at->first < end) {
    const auto [there_begin, there] = *at;
    const auto [there_end, other] = there;
    at = last.erase(at);
    const bool takes_over = stay.takes_over && other->feeds_update && other->unit == stay.unit &&
                            other->version + 1 == stay.version;
    if (takes_over) {
      stay.overlaps.insert(stay.overlaps.end(), other->overlaps.begin(), other->overlaps.end());
    } else if (stay.overlaps.empty() || stay.overlaps.back() != other) {
      stay.overlaps.push_back(other);
    }
    if (there_begin < begin) last[there_begin] = {begin, other};
    if (there_end > end) last[end] = {there_end, other};
  }
  last[begin] = {end, &stay};
}

bool Simulation::Free(const Stay& stay) const {
  return std::all_of(stay.overlaps.begin(), stay.overlaps.end(),
                     [](const Stay* other) { return other->state == State::kReleased; });
}

Simulation::Stay* Simulation::Find(Use use, int unit, int op) const {
  for (Stay* stay : of_unit_[static_cast<int>(use)][unit]) {
    if (stay->first_op <= op && op <= stay->last_op) return stay;
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
  const auto& saved = of_unit_[static_cast<int>(Use::kSavedInput)][stay.unit];
  return std::any_of(saved.begin(), saved.end(), [&](const Stay* each) {
    return each->version == stay.version && each->state == State::kReleased;
  });
}

// Starts all that can start.
void Simulation::Pump() {
  for (; entered_ <= next_op_ && entered_ < kSteps * ops(); ++entered_) {
    const std::vector<Stay*>& entering = addresses_from_[entered_];
    entering_.insert(entering_.end(), entering.begin(), entering.end());
  }
  std::erase_if(entering_, [&](Stay* stay) {
    if (stay->state == State::kWaiting && Free(*stay)) {
      stay->state = stay->fetched() ? State::kAllocated : State::kReady;
    }
    if (stay->state == State::kAllocated && CanFetch(*stay)) {
      stay->state = State::kFilling;
      const auto before = [](const Stay* a, const Stay* b) { return a->number < b->number; };
      filling_.insert(std::upper_bound(filling_.begin(), filling_.end(), stay, before), stay);
    }
    return stay->state != State::kWaiting && stay->state != State::kAllocated;
  });
  if (OpsBehind() == next_op_ && next_op_ < kSteps * ops() && MayExchange(next_op_) &&
      Ready(next_op_)) {
    BeginOp();
  }
  if (clock_.collective && !computing_ && MayCompute()) BeginComputation();
}

bool Simulation::MayExchange(int op) const {
  if (!clock_.collective) return true;
  return ComputedBehind() >= op / ops() * computations() + clock_.collective->after[op % ops()];
}

bool Simulation::MayCompute() const {
  const int step = next_computation_ / computations();
  if (step == kSteps) return false;
  const auto& next = clock_.collective->computations[next_computation_ % computations()];
  return OpsBehind() >= step * ops() + next.needs_ops;
}

void Simulation::BeginComputation() {
  computing_ = true;
  compute_left_ = clock_.collective->computations[next_computation_ % computations()].seconds;
  ++next_computation_;
}

void Simulation::BeginOp() {
  const StepOp& op = Op(next_op_);
  if (clock_.collective) {
    exchanging_ = true;
    exchange_left_ = clock_.collective->seconds[next_op_ % ops()];
    ++next_op_;
    return;
  }
  computing_ = true;
  compute_left_ = clock_.op_seconds[next_op_ % ops()];
  input_ = {};
  if (op.kind == OpKind::kForward) input_.to_host = ToHost(InputCopyBytes(plan_, op.unit));
  if (op.kind == OpKind::kBackward) input_.to_device = ToDevice(InputCopyBytes(plan_, op.unit));
  input_left_ = input_.to_host + input_.to_device > 0 ? 1 : 0;
  ++next_op_;
}

void Simulation::AddRounding(int unit, Shares& needs) const {
  if (!plan_.separate_device) {
    needs.workers += OnWorkers(RoundTouches(plan_, unit));
    return;
  }
  needs.to_host += OnDevice(RoundTouches(plan_, unit)) + ToHost(GradientToHostBytes(plan_, unit));
}

void Simulation::AddUpdate(int unit, int version, Stay* sums) {
  const double parameters = static_cast<double>(plan_.layout.PaddedParameters(unit));
  const bool spilled = plan_.deferred[unit] && plan_.placements[unit].gradient == Tier::kNvme;
  Pass pass;
  pass.unit = unit;
  pass.version = version;
  pass.sums = sums;
  pass.streamed = plan_.streams_update[unit];
  if (sums && plan_.weight_at_hand[unit]) pass.weights = Find(Use::kWeights, unit, next_op_ - 1);
  pass.needs.disk = clock_.disk.Seconds(
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
    const double whole = pass.needs.disk;
    pass.needs.disk = clock_.disk.Seconds(parameters * plan_.UpdateBytesRead(unit) * read,
                                          parameters * plan_.UpdateBytesWritten(unit) * written);
    rest.needs.disk = whole - pass.needs.disk;
  }
  if (sums) AddRounding(unit, pass.needs);
  if (plan_.DeviceUpdates(unit)) {
    pass.needs.to_host += OnDevice(UpdateTouches(plan_, unit));
  } else {
    pass.needs.workers += OnWorkers(UpdateTouches(plan_, unit));
  }
  pass.needs.to_host += ToHost(UpdateToHostBytes(plan_, unit));
  pass.needs.to_device = ToDevice(UpdateToDeviceBytes(plan_, unit));
  AddPass(pass);
  if (rest.needs.disk > 0) AddPass(rest);
}

void Simulation::AddPass(Pass pass) {
  pass.number = passes_added_++;
  Passes(pass.streamed).push_back(pass);
}

void Simulation::FinishOp(int op) {
  const int version = op / ops() + 1;
  std::vector<Stay*> complete;
  for (Stay* stay : last_used_by_[op]) {
    if (stay->state == State::kReleased) continue;
    if (stay->use == Use::kSums) {
      complete.push_back(stay);
    } else if (stay->use == Use::kSavedInput) {
      Pass save;
      save.round = true;
      save.unit = -1;  // no gradient that an update would wait for
      save.sums = stay;
      save.needs.disk = clock_.disk.Seconds(0, static_cast<double>(stay->span.bytes));
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
      round.needs.disk = clock_.disk.Seconds(0, GradientBytes(sums->unit));
    }
    AddRounding(sums->unit, round.needs);
    rounds_.push_back(round);
    ++rounds_of_[round.unit];
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
  if (!pass.sums && rounds_of_[pass.unit] > 0) return false;
  if (plan_.UpdateFillsStays(pass.unit)) {
    for (Stay* stay : of_unit_[static_cast<int>(Use::kWeights)][pass.unit]) {
      if (stay->version != pass.version || stay->state == State::kReleased) continue;
      if (stay->state == State::kAllocated) pass.destination = stay;
      break;
    }
    // After the last step there is no forward to wait for.
    if (!pass.destination && !pass.sums && pass.version < kSteps) return false;
  }
  pass.begun = true;
  if (pass.destination) {
    pass.destination->state = State::kFilling;
    if (!plan_.streams_update[pass.unit]) {
      pass.needs.to_device += pass.destination->needs.to_device;
    }
  }
  return true;
}

void Simulation::EndPass(Pass& pass) {
  if (pass.sums) pass.sums->state = State::kReleased;
  if (pass.round && pass.unit >= 0) --rounds_of_[pass.unit];
  if (pass.round) return;
  if (pass.weights) pass.weights->state = State::kReleased;
  if (pass.destination) pass.destination->state = State::kReady;
  settled_[pass.unit] = pass.version;
}

constexpr double kNever = std::numeric_limits<double>::infinity();

// How fast something that needs so much goes on with what is there: parts of it a second.
double RateOf(const Shares& needs, const Shares& there) {
  double rate = 1e9;  // nothing at all
  const auto bound = [&](double need, double part) {
    if (need > 0) rate = std::min(rate, part / need);
  };
  bound(needs.disk, there.disk);
  bound(needs.workers, there.workers);
  bound(needs.to_device, there.to_device);
  bound(needs.to_host, there.to_host);
  return rate;
}

Shares Taken(const Shares& needs, double rate) {
  return {rate * needs.disk, rate * needs.workers, rate * needs.to_device, rate * needs.to_host};
}

void Take(const Shares& taken, Shares& there) {
  there.disk = std::max(0.0, there.disk - taken.disk);
  there.workers = std::max(0.0, there.workers - taken.workers);
  there.to_device = std::max(0.0, there.to_device - taken.to_device);
  there.to_host = std::max(0.0, there.to_host - taken.to_host);
}

// In order, each as fast as disk and link let it; one that an update fills is no fetch.
Simulation::Stay* Simulation::NextFetch(bool from_store) const {
  for (Stay* stay : filling_) {
    if ((stay->needs.disk > 0) == from_store) return stay;
  }
  return nullptr;
}

Simulation::Pass* Simulation::NextUpdate(bool streamed) {
  std::deque<Pass>& passes = Passes(streamed);
  return !passes.empty() && CanRun(passes.front()) ? &passes.front() : nullptr;
}

void Simulation::Advance() {
  Stay* const fetch = NextFetch(/*from_store=*/true);
  Stay* const copy = NextFetch(/*from_store=*/false);
  Pass* round = rounds_.empty() ? nullptr : &rounds_.front();
  std::vector<Pass*> updates;
  const bool streamed_first =
      !streamed_.empty() && (passes_.empty() || streamed_.front().number < passes_.front().number);
  for (const bool streamed : {streamed_first, !streamed_first}) {
    if (Pass* const update = NextUpdate(streamed)) updates.push_back(update);
  }

  // Each takes of every resource what those before it have left. What an operation copies is
  // not held up: nothing else waits for anything while it does.
  Shares there = {1, 1, 1, 1};
  const auto share_out = [&there](const Shares* needs, const Shares& most) {
    if (needs == nullptr) return 0.0;
    const double rate = RateOf(*needs, most);
    Take(Taken(*needs, rate), there);
    return rate;
  };
  const bool moves = computing_ && input_left_ > 0;
  const double input_rate = share_out(moves ? &input_ : nullptr, there);
  // The one that is needed first goes first over the link.
  const bool copy_first = copy && fetch && copy->first_op < fetch->first_op;
  double copy_rate = copy_first ? share_out(&copy->needs, there) : 0;
  // A deferred update reads in the same class as a fetch.
  const bool shares = std::any_of(updates.begin(), updates.end(), [](const Pass* update) {
    return !update->sums && !update->round && update->needs.disk > 0;
  });
  Shares of_fetch = there;
  if (shares) of_fetch.disk = 0.5;
  const double fetch_rate = share_out(fetch ? &fetch->needs : nullptr, of_fetch);
  if (!copy_first) copy_rate = share_out(copy ? &copy->needs : nullptr, there);
  const double round_rate = share_out(round ? &round->needs : nullptr, there);
  std::vector<double> update_rates;
  for (const Pass* update : updates) update_rates.push_back(share_out(&update->needs, there));
  // How often any of the workers is busy, each of them as often as all are on average.
  const double any_busy = 1 - std::pow(there.workers, clock_.workers);
  // Never quite nothing: then both would share the cores.
  const double compute_rate = std::max(0.05, 1 - clock_.shared_cores * any_busy);

  double passed = kNever;
  const auto ends_after = [&](double left, double rate) {
    if (rate > 0) passed = std::min(passed, left / rate);
  };
  if (moves) ends_after(input_left_, input_rate);
  if (fetch) ends_after(fetch->left, fetch_rate);
  if (copy) ends_after(copy->left, copy_rate);
  if (round) ends_after(round->left, round_rate);
  for (size_t i = 0; i < updates.size(); ++i) ends_after(updates[i]->left, update_rates[i]);
  if (computing_ && !moves) ends_after(compute_left_, compute_rate);
  if (exchanging_) ends_after(exchange_left_, 1);
  SPILLWAY_CHECK(passed < kNever && "a plan whose steps come to a standstill");

  now_ += passed;
  const bool updates_move = std::any_of(updates.begin(), updates.end(),
                                        [](const Pass* update) { return update->needs.disk > 0; });
  if (fetch || (round && round_rate * round->needs.disk > 0) || updates_move) {
    disk_busy_ += passed;
  }
  if (there.to_device < 1 || there.to_host < 1) copy_busy_ += passed;
  if (exchanging_) exchange_busy_ += passed;
  if (!computing_) stalled_ += passed;
  const auto done = [&](double& left, double rate) {
    left -= passed * rate;
    if (left > 1e-12) return false;
    left = 0;
    return true;
  };
  for (const auto& [stay, rate] : {std::pair(fetch, fetch_rate), std::pair(copy, copy_rate)}) {
    if (stay == nullptr || !done(stay->left, rate)) continue;
    stay->state = State::kReady;
    std::erase(filling_, stay);
  }
  const bool round_ends = round && done(round->left, round_rate);
  if (round_ends) {
    EndPass(*round);
    rounds_.pop_front();
  }
  for (size_t i = 0; i < updates.size(); ++i) {
    if (!done(updates[i]->left, update_rates[i])) continue;
    EndPass(*updates[i]);
    Passes(updates[i]->streamed).pop_front();
  }
  if (moves) {
    done(input_left_, input_rate);
  } else if (computing_ && done(compute_left_, compute_rate)) {
    computing_ = false;
    if (!clock_.collective) FinishOp(next_op_ - 1);
  }
  if (exchanging_ && done(exchange_left_, 1)) {
    exchanging_ = false;
    FinishOp(next_op_ - 1);
  }
}

SimulatedStep Simulation::Run() {
  const int loss_op =
      static_cast<int>(std::find_if(plan_.schedule.ops.begin(), plan_.schedule.ops.end(),
                                    [](const StepOp& op) { return op.kind == OpKind::kLoss; }) -
                       plan_.schedule.ops.begin());
  const int counted = (kSteps - 1) * ops();
  // What is computed up to the loss of the step that counts.
  int forward = counted + loss_op;
  if (clock_.collective) {
    const auto& all = clock_.collective->computations;
    forward = (kSteps - 1) * computations() +
              static_cast<int>(std::count_if(all.begin(), all.end(),
                                             [](const auto& each) { return each.forward; }));
  }
  SimulatedStep before, step;
  double forward_end = 0;
  while (true) {
    Pump();
    const int done = OpsBehind();
    if (done == counted && before.seconds == 0) {
      before = {now_, 0, disk_busy_, copy_busy_, exchange_busy_, stalled_};
    }
    if (ComputedBehind() == forward && forward_end == 0) forward_end = now_;
    if (done == counted + ops()) break;
    Advance();
  }
  step.seconds = now_ - before.seconds;
  step.forward_seconds = std::max(0.0, forward_end - before.seconds);
  step.disk_seconds = disk_busy_ - before.disk_seconds;
  step.copy_seconds = copy_busy_ - before.copy_seconds;
  step.collective_seconds = exchange_busy_ - before.collective_seconds;
  step.stall_seconds = stalled_ - before.stall_seconds;
  return step;
}

}  // namespace

SimulatedStep SimulateStep(const SwapPlan& plan, const StepClock& clock) {
  return Simulation(plan, clock).Run();
}

}  // namespace spillway
